"""Mistakes with CUDA graphs: each marked one is found in one run, at its line; the fixed twins and the idioms of good
programs have no finding."""

import pytest
from checker import DEADLINE, LOCUS, check, each_is_found_once, nothing_is_found
from corpus import fixed, programs, read_mistakes

PROGRAMS = programs("graphs")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]
KINDS = 35


def test_there_are_enough_kinds():
    assert sum(len(read_mistakes(path.read_text())) for path in WRONG) >= KINDS


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_mistake_is_found_once(program, path):
    each_is_found_once(program, path)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_twin_has_no_finding(program, path):
    nothing_is_found(program, fixed(path))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_good_programs_have_no_finding(program, path):
    nothing_is_found(program, path)


@pytest.mark.parametrize("name", ["kept_results", "bound_inputs"])
def test_the_copies_are_written_and_verified(program, tmp_path, name):
    """`locus fix` keeps copies; then there is no finding, and the program prints what the twin prints."""
    (path,) = [path for path in WRONG if path.stem == name]
    target = tmp_path / path.name
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    assert target.read_text() != path.read_text(), result.describe()
    again = check(program, target, devices=1)
    assert again.findings == [], again.result.describe()
    assert again.stdout == program.run(fixed(path), simulate=1).ok().stdout


def test_a_library_that_is_set_up_is_said_to_be_for_a_thread(program, tmp_path):
    """The warm-up without backward() does not help the thread that runs the backward pass."""
    (path,) = [path for path in WRONG if path.stem == "first_calls"]
    found = {finding["cause"]["line"]: finding for finding in check(program, path, devices=1).findings}
    text = path.read_text().splitlines()
    (backward,) = [found[line] for line in found if "BUG 2" in text[line - 1]]
    (forward,) = [found[line] for line in found if "BUG 1" in text[line - 1]]
    assert backward["message"].startswith("mm() of its backward pass in the capture of a CUDA graph: CUBLAS_STATUS")
    assert forward["message"].startswith("mm() in the capture of a CUDA graph: CUBLAS_STATUS_NOT_INITIALIZED")
    assert "call backward() once before the capture" in str(backward), backward
    assert "in the same thread" in str(forward), forward


WARM = """
import sys
import torch

x, weight = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda", requires_grad=True)
what, mode = sys.argv[1:]
if "product" in what: x @ x
if "backward" in what: (x @ weight).sum().backward()
if "thread" in what:
    import threading
    thread = threading.Thread(target=lambda: x @ x)
    thread.start(); thread.join()
if "solved" in what: torch.linalg.solve(x + torch.eye(4, device="cuda"), x)
if "recurrent" in what: layer = torch.nn.LSTM(4, 4).cuda()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, capture_error_mode=mode):
    if "recurrent" in what: layer(x)
    elif "empty" in what: x[:0] @ x, x[:, :0] @ x[:0]
    elif "captured-both" in what: (x @ weight).sum().backward()
    else: x @ x
print("captured")
"""


@pytest.mark.parametrize("dry", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "what, mode, is_taken",
    [
        ("nothing", "global", False), ("nothing", "thread_local", False), ("nothing", "relaxed", True),
        ("product", "global", True), ("thread", "global", True), ("solved", "global", True), ("empty", "global", True),
        ("recurrent", "global", True), ("product,captured-both", "global", False),
        ("product,captured-both", "thread_local", True), ("backward,captured-both", "global", True),
    ],
)  # fmt: skip
def test_what_a_card_takes_in_a_capture(program, tmp_path, what, mode, is_taken, dry):
    """As an H200 did with each of them."""
    (tmp_path / "prog.py").write_text(WARM)
    options = ["--dry"] if dry else []
    result = program.run(LOCUS, "check", *options, "prog.py", what, mode, cwd=tmp_path, deadline=DEADLINE)
    assert (result.code, result.stdout) == (0 if is_taken else 1, "captured\n"), result.describe()
    assert ("CUBLAS_STATUS_NOT_INITIALIZED" in result.stderr) != is_taken, result.describe()
    if not dry:
        run = program.run(LOCUS, "run", "prog.py", what, mode, cwd=tmp_path, deadline=DEADLINE)
        assert (run.code == 0) == is_taken, run.describe()
        assert ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED" in run.stderr) != is_taken, run.describe()


@pytest.mark.parametrize("mode", ["global", "relaxed"])
@pytest.mark.parametrize("call, words", [("svd", "unless the CPU tensor is pinned"), ("eigh", "cusolverDnXsyevd")])
def test_what_is_never_captured(program, tmp_path, call, words, mode):
    """Warm or not, in every mode: they wait for the card, or copy to the host, on the stream that is captured."""
    (tmp_path / "prog.py").write_text(
        f"import torch\nx = torch.eye(4, device='cuda')\ntorch.linalg.{call}(x)\ngraph = torch.cuda.CUDAGraph()\n"
        f"with torch.cuda.graph(graph, capture_error_mode='{mode}'):\n    torch.linalg.{call}(x)\n"
    )
    checked = check(program, tmp_path / "prog.py", devices=1)
    assert [(found["code"], found["cause"]["line"]) for found in checked.findings] == [("LOC037", 6)], checked.findings
    assert words in checked.findings[0]["message"], checked.findings[0]
