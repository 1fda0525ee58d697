"""Distributed programs, each with one mistake, and fixed: what is found, where, on which ranks. Nothing hangs."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from corpus import fixed_programs, programs, read_mistakes

PROGRAMS = Path(__file__).parent.parent / "programs" / "distributed"
WRONG = programs("distributed/wrong")
CORRECT = programs("distributed/correct")
GOLDEN = Path(__file__).parent / "golden"
DEADLINE = 40


def check(program, folder, path, ranks=2, devices=4, act="", steps=""):
    """The report of a check of so many ranks, and what they printed."""
    report = folder / "report.json"
    result = program.call(
        "rank_server:check", str(path), str(ranks), str(report), "30", str(devices), act, steps, deadline=DEADLINE,
        cwd=path.parent,
    )  # fmt: skip
    assert report.exists(), result.describe()
    return json.loads(report.read_text()), result


RARE = {
    "flattened_after_optimizer", "mesh_too_large", "state_dict_unsharded", "calls_swapped", "head_left_out",
    "uneven_then_averaged", "functions_swapped", "handle_dropped",
}  # fmt: skip
"""Like others that are run often."""


def wrong_ones():
    for path in WRONG:
        yield pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in RARE else [])


@pytest.mark.parametrize("path", list(wrong_ones()))
def test_the_mistake_is_found_once_and_blamed(program, tmp_path, path):
    (mistake,) = read_mistakes(path.read_text())
    outcome, result = check(program, tmp_path, path)
    findings = outcome["report"]["findings"]
    assert [finding["reason"] for finding in findings] == mistake.reasons, outcome["text"] + result.describe()
    assert findings[0]["cause"]["line"] in mistake.accepted_lines, outcome["text"]
    assert findings[0]["ranks"], outcome["text"]
    assert not outcome["report"]["notes"], outcome["report"]["notes"]
    compare_words(path, outcome["text"])


def compare_words(path, text):
    """What the report says, word for word, but for what differs from run to run."""
    text = text.partition("\nnote: the program ended")[0].partition("\nlocus: ")[0]
    text = re.sub(r"^ +(?:= seen: .*\n)", "", text, flags=re.M)
    text = re.sub(r"locus-[\d-]+\.pt", "locus.pt", text)
    text = re.sub(r"'\S*/locus\.pt'", "'locus.pt'", text)
    text = re.sub(r"has\s+ended\s+\(process\s+\d+\)|had\s+ended\s+with\s+exit\s+status\s+1", "has ended", text)
    if os.environ.get("LOCUS_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"{path.stem}.txt").write_text(text)
    elif torch.__version__.startswith("2.13"):  # other versions have other lines inside
        flat = [re.sub(r"\s+", " ", each) for each in (text, (GOLDEN / f"{path.stem}.txt").read_text())]
        assert flat[0] == flat[1], text


def test_every_reason_of_distributed_code_has_its_words():
    said = "".join(path.read_text() for path in GOLDEN.glob("*.txt"))
    assert {f"LOC0{number}" for number in (*range(22, 33), 43)} <= set(re.findall(r"\[(LOC\d+)\]", said))


NEAR_MISSES = {
    "branch_by_rank",
    "output_not_in_loss",
    "uneven_loop",
    "groups_crossed",
    "checkpoint_without_map_location",
}


def right_ones():
    for path in fixed_programs("distributed/wrong") + CORRECT:
        often = path in CORRECT or path.stem in NEAR_MISSES
        yield pytest.param(path, id=f"{path.parent.name}-{path.stem}", marks=[] if often else [pytest.mark.slow])


@pytest.mark.parametrize("path", right_ones())
def test_nothing_is_found_when_it_is_right(program, tmp_path, path):
    outcome, result = check(program, tmp_path, path)
    assert not outcome["report"]["findings"], outcome["text"]
    assert outcome["codes"] == {"0": 0, "1": 0}, result.describe()
    assert not outcome["report"]["notes"], outcome["report"]["notes"]
    assert outcome["report"]["program"]["ranks"] == 2


def test_four_ranks_are_one_report(program, tmp_path):
    outcome, _ = check(program, tmp_path, PROGRAMS / "wrong" / "unused_layer.py", ranks=4)
    (finding,) = outcome["report"]["findings"]
    assert finding["ranks"] == [0, 1, 2, 3] and "spare.weight" in finding["why"]


WAITING = """
import os, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
if rank == 1:
    open(os.environ["TEST_READY"], "w").close()
    time.sleep(60)
dist.all_reduce(value)
"""


@pytest.mark.parametrize("act, word", [("kill:1", "SIGKILL"), ("stop:1", "stopped")])
def test_a_rank_that_dies_or_stops_is_named(program, tmp_path, act, word):
    path = tmp_path / "waiting.py"
    path.write_text(WAITING)
    outcome, _ = check(program, tmp_path, path, act=act)
    (finding,) = outcome["report"]["findings"]
    assert finding["reason"] == "rank-missing" and finding["ranks"] == [0], outcome["text"]
    assert "rank 1" in finding["message"] and "collective 2" in finding["message"] and word in finding["why"], finding
    assert finding["uses"][0]["line"] == 11 and finding["cause"]["line"] == 7, finding
    assert outcome["seconds"] < 20


RING = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
groups = [dist.new_group([a, (a + 1) % 3]) for a in range(3)]
value = torch.ones(1, device="cuda")
dist.all_reduce(value, group=groups[rank])
dist.all_reduce(value, group=groups[rank - 1])
"""


def test_a_ring_of_groups_of_which_no_rank_knows_all_is_found(program, tmp_path):
    path = tmp_path / "ring.py"
    path.write_text(RING)
    outcome, _ = check(program, tmp_path, path, ranks=3)
    (finding,) = outcome["report"]["findings"]
    assert finding["reason"] == "ranks-part-ways" and finding["ranks"] == [0, 1, 2], outcome["text"]
    assert "wait for each other" in finding["message"] and finding["uses"][0]["line"] == 8, finding
    assert outcome["seconds"] < 20


def test_the_losses_are_those_of_gloo_on_the_cpu(program, tmp_path):
    path = PROGRAMS / "correct" / "training.py"
    printed = []
    for device in ("cuda", "cpu"):
        report = tmp_path / f"{device}.json"
        result = program.call(
            "rank_server:check", str(path), "2", str(report), env={"TEST_DEVICE": device}, deadline=DEADLINE
        )
        printed.append([line for line in result.stdout.splitlines() if line.startswith("epoch")])
    assert len(printed[0]) == 3 and printed[0] == printed[1]


REFUSED = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
def refused(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return "accepted"
x = torch.ones(4, 4, device="cuda")
if rank == 0:
    print(refused(lambda: dist.all_reduce(x.t()[1:])))
    print(refused(lambda: dist.all_reduce(x.short())))
    print(refused(lambda: dist.all_reduce(x.to_sparse())))
    print(refused(lambda: dist.all_reduce(x, op=dist.ReduceOp.BAND)))
dist.destroy_process_group()
"""


def test_what_nccl_refuses_is_refused(program, tmp_path):
    path = tmp_path / "refused.py"
    path.write_text(REFUSED)
    _, result = check(program, tmp_path, path)
    lines = result.stdout.splitlines()
    for words, line in zip(("contiguous", "not supported", "sparse", "BAND"), lines, strict=True):
        assert words in line, result.describe()


PAGES = sorted((PROGRAMS.parents[2] / "docs" / "findings").glob("LOC*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if "torch.distributed" in p.read_text()], ids=lambda page: page.stem)
def test_the_program_of_a_findings_page(program, tmp_path, page):
    """It has the finding that the page is about, and no other. Those without ranks: tests/python/test_docs.py."""
    path = tmp_path / "page.py"
    path.write_text(re.search(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)[1])
    outcome, result = check(program, tmp_path, path)
    codes = [finding["code"] for finding in outcome["report"]["findings"]]
    assert codes == [page.stem], outcome["text"] + result.describe()
