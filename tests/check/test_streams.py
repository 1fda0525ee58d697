"""Races between streams, copies, the host and the allocator: each marked one is found in one run; the fixed twins and
the idioms of good programs have no finding."""

import pytest
from checker import DEADLINE, LOCUS, check, each_is_found_once, nothing_is_found
from corpus import fixed, programs, read_mistakes

PROGRAMS = programs("streams")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]
KINDS = 25


def test_there_are_enough_kinds():
    assert sum(len(read_mistakes(path.read_text())) for path in WRONG) >= KINDS


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_race_is_found_once(program, path):
    for verdict in each_is_found_once(program, path):
        assert verdict.finding["fixes"], f"no fix: {verdict.finding['message']}"


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_twin_has_no_finding(program, path):
    nothing_is_found(program, fixed(path))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_good_programs_have_no_finding(program, path):
    nothing_is_found(program, path)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_waits_are_written_and_verified(program, tmp_path, path):
    """`locus fix` puts the missing waits in; then there is no finding, and the program prints what the twin prints."""
    target = tmp_path / path.name
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    assert target.read_text() != path.read_text(), result.describe()
    again = check(program, target, devices=1)
    assert again.findings == [], again.result.describe()
    assert again.stdout == program.run(fixed(path), simulate=1).ok().stdout


def test_the_last_access_of_all_is_found(program, tmp_path):
    """By NumPy, which calls no operator, and none comes after it."""
    path = tmp_path / "program.py"
    path.write_text(
        'import torch\nhost = torch.ones(64, device="cuda").to("cpu", non_blocking=True)\narray = host.numpy()\n'
        "print(array.sum())\n"
    )
    (finding,) = check(program, path, devices=1).findings
    assert (finding["code"], finding["uses"][0]["line"]) == ("LOC020", 4)


@pytest.mark.parametrize(
    "made, call",
    [("torch.ones(64, device='cuda')", "ones()"), ("torch.empty(64, device='cuda')\nx.fill_(1)", "fill_()")],
)
def test_what_fills_a_new_tensor_is_called_as_the_program_calls_it(program, tmp_path, made, call):
    path = tmp_path / "program.py"
    path.write_text(
        f"import torch\nside = torch.cuda.Stream()\nx = {made}\nwith torch.cuda.stream(side):\n    y = x * 2\n"
        "torch.cuda.synchronize()\nprint(y.sum().item())\n"
    )
    (finding,) = check(program, path, devices=1).findings
    assert finding["why"].startswith(f"{call} at program.py:{3 + made.count(chr(10))} writes it on the default stream")


def test_who_is_given_the_memory_is_called_as_the_program_calls_it(program, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import torch\nside = torch.cuda.Stream()\nx = torch.ones(1 << 20, device='cuda')\n"
        "side.wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side):\n    y = x * 2\ndel x\n"
        "z = torch.zeros(1 << 20, device='cuda')\ntorch.cuda.synchronize()\nprint(y.sum().item())\n"
    )
    (finding,) = check(program, path, devices=1).findings
    assert finding["code"] == "LOC035" and finding["message"].startswith("zeros() is given the memory"), finding
