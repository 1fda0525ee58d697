"""Several hosts, each with `locus check`: one report, over the network or in a folder; a host that dies loses only its
own part, and nobody waits for good."""

import json
import subprocess
import sys
import time

import pytest
import two_hosts
from two_hosts import Ended

LOCUS = [sys.executable, "-m", "locus"]

WRONG = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
both = x + torch.ones(4)
if dist.get_rank() == 1:
    second = x * torch.arange(4)
dist.destroy_process_group()
"""

LONG = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
{mistake}
dist.all_reduce(x)
open(f"ready-{{dist.get_rank()}}", "w").close()
if dist.get_rank() == {alone}:
    time.sleep(5)
else:
    while True:
        time.sleep(0.1)
        dist.all_reduce(x)
"""

APART = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
if dist.get_rank() == 0:
    dist.all_reduce(x)
else:
    dist.all_gather([torch.ones(4, device="cuda") for _ in range(2)], x)
"""


@pytest.fixture(scope="module")
def hosts():
    with two_hosts.connected() as found:
        yield found


def run(*arguments, cwd):
    return subprocess.run([*LOCUS, *arguments], cwd=cwd, timeout=900, capture_output=True, text=True)


def report_in(path):
    report = json.loads((path / "report.json").read_text())
    return report, {finding["uses"][0]["line"]: finding["ranks"] for finding in report["findings"]}


BOTH = [
    {"name": "node-a", "ranks": [0], "reported": True},
    {"name": "node-b", "ranks": [1], "reported": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["network", "folder"])
def test_one_report_of_two_hosts(hosts, tmp_path, how):
    (tmp_path / "train.py").write_text(WRONG)
    options = ["--report-dir", "shared"] if how == "folder" else []
    page = ["--json", "report.json", "--html", "report.html"]
    first = hosts.check("a", *options, *page, cwd=tmp_path)
    second = hosts.check("b", *options, cwd=tmp_path)
    first, second = Ended(first), Ended(second)
    assert (first.code, second.code) == (1, 1), first.err + second.err
    report, lines = report_in(tmp_path)
    assert lines == {7: [0, 1], 9: [1]} and report["program"]["hosts"] == BOTH and report["program"]["ranks"] == 2
    assert report["program"]["incomplete"] == "" and not report["notes"], report["notes"]
    assert "host node-a: rank 0" in first.err and "host node-b: rank 1" in first.err
    assert "2 findings (2 errors) on 2 ranks of 2 hosts" in first.words
    assert "node-b: rank 1" in (tmp_path / "report.html").read_text()
    assert "error[" not in second.err and "rank 1 on node-b: 2 findings" in second.words
    if how == "folder":
        later = run("report", "shared", "--json", "report.json", "--exit-status", cwd=tmp_path)
        assert later.returncode == 1, later.stderr
        again, lines = report_in(tmp_path)
        assert lines == {7: [0, 1], 9: [1]} and again["program"]["hosts"] == BOTH
        assert again["program"]["script"] == "train.py" and again["program"]["ops"] == report["program"]["ops"]


@pytest.mark.slow
def test_launchers_of_each_host(hosts, tmp_path):
    """`--node-rank`, and torchrun inside of a check: both are one check a host, with several ranks each."""
    (tmp_path / "train.py").write_text(WRONG)
    where = ["--master-addr", two_hosts.ADDRESSES["a"], "--master-port", two_hosts.PORT]
    torchrun = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", *where, "--node-rank"]
    own = ["--nproc", "2", "--nnodes", "2", *where, "--node-rank"]
    for words in (own, torchrun):
        (tmp_path / "report.json").unlink(missing_ok=True)
        command = [*LOCUS, "check", "--json", "report.json", *words]
        started = [hosts.start(host, *command, str("ab".index(host)), "train.py", cwd=tmp_path) for host in "ab"]
        first, second = map(Ended, started)
        assert (first.code, second.code) == (1, 1), first.err + second.err
        report, lines = report_in(tmp_path)
        assert lines == {7: [0, 1], 9: [1]} and report["program"]["hosts"] == BOTH
        assert "rank 1 on node-b: " in second.words and "error[" not in second.err


@pytest.mark.slow
def test_a_check_in_each_rank_of_torchrun(hosts, tmp_path):
    (tmp_path / "train.py").write_text(WRONG)
    where = ["--master-addr", two_hosts.ADDRESSES["a"], "--master-port", two_hosts.PORT]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", *where]
    started = [
        hosts.start(
            host, *torchrun, "--node-rank", str("ab".index(host)), "-m", "locus", "check", "--json", "report.json",
            "train.py", cwd=tmp_path,
        )
        for host in "ab"
    ]  # fmt: skip
    first, second = map(Ended, started)
    assert first.code == 1 and second.code == 1, first.err + second.err
    report, lines = report_in(tmp_path)
    assert lines == {7: [0, 1, 2, 3], 9: [1]} and [host["ranks"] for host in report["program"]["hosts"]] == [
        [0, 1],
        [2, 3],
    ]
    assert first.err.count("error[") == 2 and "error[" not in second.err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["network", "folder"])
def test_a_host_that_is_killed_is_missed(hosts, tmp_path, how):
    """Rank 0 comes to its end and has no mistake: that is not "no placement mistakes"."""
    (tmp_path / "train.py").write_text(LONG.format(mistake="", alone=0))
    options = ["--report-wait", "4", *(["--report-dir", "shared"] if how == "folder" else [])]
    first = hosts.check("a", *options, "--json", "report.json", cwd=tmp_path)
    hosts.check("b", *options, cwd=tmp_path)
    two_hosts.wait_for(tmp_path / "ready-0", tmp_path / "ready-1")
    hosts.kill("b")
    first = Ended(first)
    assert first.code == 2, first.err
    assert "the check is incomplete: host node-b's rank 1 left no report within 4 s" in first.words
    assert "no placement mistakes" not in first.words and "host node-b: rank 1, which left no report" in first.words
    report, _ = report_in(tmp_path)
    assert report["program"]["hosts"] == [BOTH[0], {"name": "node-b", "ranks": [1], "reported": False}]
    assert report["verdict"]["is"] == "incomplete"
    if how == "folder":
        later = run("report", "shared", "--exit-status", cwd=tmp_path)
        assert later.returncode == 2 and "host node-b's rank 1 left no report" in " ".join(later.stdout.split())


@pytest.mark.slow
def test_the_host_of_rank_0_is_killed(hosts, tmp_path):
    (tmp_path / "train.py").write_text(LONG.format(mistake="x + torch.ones(4)", alone=-1))
    hosts.check("a", cwd=tmp_path)
    second = hosts.check("b", "--json", "report.json", cwd=tmp_path)
    two_hosts.wait_for(tmp_path / "ready-0", tmp_path / "ready-1")
    hosts.kill("a")
    second = Ended(second)
    assert second.code == 1, second.err
    report, lines = report_in(tmp_path)
    assert list(lines.values()) == [[1]] and report["program"]["incomplete"].endswith("without rank 0"), second.err
    assert report["program"]["hosts"] == [BOTH[1], {"name": "", "ranks": [0], "reported": False}]
    assert "this report is of rank 1 on node-b" in second.words


@pytest.mark.slow
def test_ranks_of_different_hosts_that_part_ways(hosts, tmp_path):
    """Each waits for the other, in other calls: both are told, long before PyTorch's own time is over."""
    (tmp_path / "train.py").write_text(APART)
    began = time.monotonic()
    first = hosts.check("a", "--json", "report.json", cwd=tmp_path)
    second = hosts.check("b", cwd=tmp_path)
    first, second = Ended(first), Ended(second)
    assert time.monotonic() - began < 240, "PyTorch's own limit is ten minutes"
    report, _ = report_in(tmp_path)
    (finding,) = report["findings"]
    assert finding["code"] == "LOC024" and finding["ranks"] == [0, 1] and "if dist.get_rank() == 0" in finding["why"]
    assert "do not fit" in second.err and second.code == 1


# --- Without a network


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "train.py").write_text("print('ran')\n")
    (tmp_path / "file").write_text("")
    result = run("check", "--report-dir", "file/parts", "train.py", cwd=tmp_path)
    assert result.returncode == 2 and "--report-dir file/parts can't be written" in result.stderr, result.stderr
    assert "ran" not in result.stdout


@pytest.mark.parametrize(
    "options, words",
    [
        (["--report-wait", "soon"], "--report-wait soon is not a number of seconds"),
        (["--nproc", "2", "--node-rank", "0"], "--node-rank is about one of --nnodes machines"),
        (["--nproc", "2", "--nnodes", "2", "--node-rank", "2"], "--node-rank 2 is not one of 2 hosts"),
        (["--nproc", "2", "--nnodes", "2", "--node-rank", "1"], "--node-rank needs --master-addr"),
        (["--nproc", "2", "--master-addr", "a"], "--master-addr and --master-port are about several machines"),
        (["--node-rank", "1"], "--node-rank is about the ranks of --nproc"),
        (["--report-dir", "x", "--verify"], "edits are tried with all ranks, on one machine"),
    ],
)
def test_bad_input_is_named(tmp_path, options, words):
    (tmp_path / "train.py").write_text("print('ran')\n")
    result = run("check", *options, "train.py", cwd=tmp_path)
    assert result.returncode == 2 and words in " ".join(result.stderr.split()) and not result.stdout, result.stderr


def test_a_folder_without_parts(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "holiday.part.zip").write_text("a picture")
    empty, foreign = run("report", "empty", cwd=tmp_path), run("report", "foreign", cwd=tmp_path)
    assert empty.returncode == 2 and "there is no part of a report in it" in empty.stderr, empty.stderr
    assert foreign.returncode == 2 and "holiday.part.zip is none" in foreign.stderr, foreign.stderr


@pytest.mark.slow
def test_one_host_is_as_it_was(tmp_path):
    """Each rank a check of its own, on one machine: one report, and it does not speak of hosts."""
    (tmp_path / "train.py").write_text(WRONG)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "locus", "check"]
    result = subprocess.run(
        [*torchrun, "--json", "report.json", "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    report, lines = report_in(tmp_path)
    assert lines == {7: [0, 1], 9: [1]} and "hosts" not in report["program"], result.stderr
    assert result.stderr.count("error[LOC004]") == 2
