"""What a dry run says of memory and finds is what the same run with values says and finds."""

import ast
import functools

import pytest
from dry_running import PROGRAMS, forked, forked_report, keys


def training(name):
    """A program of PROGRAMS/simulate that prints its memory at the end. The garbage collector runs at fixed moments:
    when it comes by itself depends on how many Python objects there are, which is none of the device's business."""
    text = (PROGRAMS / "simulate" / f"{name}.py").read_text()
    body = ast.parse(text).body
    first = next(each.lineno for each in body if not isinstance(each, ast.Expr) and "__future__" not in ast.dump(each))
    lines = text.splitlines()
    return "\n".join([*lines[: first - 1], BEFORE, *lines[first - 1 :], AFTER])


BEFORE = """
import gc, itertools, torch
from torch.optim.optimizer import register_optimizer_step_post_hook
if __name__ == "__main__":
    gc.disable()
    register_optimizer_step_post_hook(lambda *_: gc.collect())
    passes = itertools.count()
    def collect(*_):
        if next(passes) % 16 == 0:
            gc.collect()
    torch.nn.modules.module.register_module_forward_pre_hook(collect)
    gc.freeze()  # what PyTorch's modules are made of is not looked at again
"""
AFTER = """
if __name__ == "__main__":
    gc.collect()
    s = torch.cuda.memory_stats()
    print("MEMORY", s["allocation.all.allocated"], s["allocated_bytes.all.current"], s["allocated_bytes.all.peak"],
          s["reserved_bytes.all.peak"])
"""


def memory(program, tmp_path, name, *options):
    path = tmp_path / "program.py"
    path.write_text(training(name))
    result = forked(program, "run", "--devices", "2", *options, path=path)
    found = [line for line in result.stdout.splitlines() if line.startswith("MEMORY")]
    assert found, result.describe()
    return found[0]


EVERYDAY = ["rng"]
ALL = sorted(path.stem for path in (PROGRAMS / "simulate").glob("*.py"))
OTHERWISE = {
    "memory": "asks for more than the card has, which a dry run gives",
    "print_formats": "prints tensors, for which PyTorch computes as many intermediates as their values say",
    "linalg_fft": "PyTorch's shape rule for lstsq leaves garbage in Python that holds a tensor until it is collected",
    "jit": "TorchScript specializes by what it sees",
    "threads": "threads race for memory",
}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in EVERYDAY else pytest.mark.slow) for each in ALL]
)
def test_memory_is_that_of_the_run_with_values(program, tmp_path, name):
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    # A thread of autograd's may let go of its last buffers a moment after the program has gone on: then the peak is
    # another, with values and without.
    dry, with_values = set(), set()
    for _ in range(10):
        dry.add(memory(program, tmp_path, name, "--dry"))
        with_values.add(memory(program, tmp_path, name))
        if dry & with_values:
            return
    pytest.fail(f"{dry} without values, {with_values} with them")


@pytest.mark.parametrize("name", ["two_streams", "pinned_memory"])
def test_races_are_found_without_values(program, name):
    """Nothing is small here, so that each operator is answered by its shapes."""
    path = PROGRAMS / "streams" / f"{name}.py"
    found = forked_report(program, path, "--dry", "--dry-keep", "0")["findings"]
    lines = path.read_text().splitlines()
    assert len(found) == sum("# BUG" in line for line in lines), found
    assert {f["code"] for f in found} == {"LOC020", "LOC034"}


SAMPLE = ["class_weights", "rotary_cache"]


@pytest.fixture(scope="session")
def with_values(program):
    """What the run with values finds, once for each program."""
    return functools.cache(lambda path: keys(forked_report(program, path)))


@pytest.mark.parametrize("keep", ["64KiB", "0"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem in SAMPLE else pytest.mark.slow, id=path.stem)
        for path in sorted([*(PROGRAMS / "wrong").glob("*.py"), *(PROGRAMS / "streams").glob("*.py")])
    ],
)
def test_findings_are_those_of_the_run_with_values(program, with_values, path, keep):
    dry = forked_report(program, path, "--dry", "--dry-keep", keep, "--steps", "1000")
    is_wrong = "# BUG" in path.read_text()
    assert bool(with_values(path)) == is_wrong, "a wrong program without a finding compares nothing"
    assert keys(dry) == with_values(path)
