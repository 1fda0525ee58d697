"""What a dry run says of memory and finds is what the same run with values says and finds."""

import ast
import functools

import pytest
from dry_running import PROGRAMS, forked, forked_report, keys, locus


def training(path):
    """A program that prints its memory after each step of an optimizer, and at the end. The garbage collector runs at
    fixed moments: when it comes by itself depends on how many Python objects there are, which is none of the device's
    business."""
    text = path.read_text()
    body = ast.parse(text).body
    first = next(each.lineno for each in body if not isinstance(each, ast.Expr) and "__future__" not in ast.dump(each))
    lines = text.splitlines()
    return "\n".join([*lines[: first - 1], BEFORE, *lines[first - 1 :], AFTER])


BEFORE = """
import gc, itertools, torch
from torch.optim.optimizer import register_optimizer_step_post_hook
if __name__ == "__main__":
    gc.disable()
    def tell_memory():
        for device in range(torch.cuda.device_count()):
            s = torch.cuda.memory_stats(device)
            bytes = s["allocated_bytes.all.current"], s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"]
            print("\\nMEMORY", device, *bytes)
            print("CALLS", device, s["allocation.all.allocated"])
    def after_step(*_):
        gc.collect()
        tell_memory()
    register_optimizer_step_post_hook(after_step)
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
    tell_memory()
"""


def memory(program, tmp_path, path, told, *options):
    target = tmp_path / path.name
    target.write_text(training(path))
    result = forked(program, "run", "--devices", "2", *options, path=target)
    found = [line for line in result.stdout.splitlines() if line.startswith(told)]
    assert found, result.describe()
    return tuple(found)


EVERYDAY = ["rng"]
FOLDERS = "simulate", "correct", "memory/right", "unseen/right"
ALL = [path for folder in FOLDERS for path in sorted((PROGRAMS / folder).glob("*.py"))]
OTHERWISE = {
    "memory": "asks for more than the card has, which a dry run gives",
    "print_formats": "prints tensors, for which PyTorch computes as many intermediates as their values say",
    "linalg_fft": "PyTorch's shape rule for lstsq leaves garbage in Python that holds a tensor until it is collected",
    "jit": "TorchScript specializes by what it sees",
    "threads": "threads race for memory",
}
BY_VALUES = {
    "amp": "GradScaler takes one step less with values, which overflow once",
    "dqn": "the chosen actions say when an episode ends",
    "fall_back_to_host": "LBFGS stops by its loss",
    "gnn_right": "counts its graphs by the largest number of one, and has a target for each",
    "graph_network": "counts its graphs by the largest number of one",
    "host_index_device_data": "as many examples as a mask selects, which PyTorch takes to the device",
    "lbfgs_inverse": "LBFGS stops by its loss",
    "loss_zoo": "adaptive softmax looks up the words of each cluster",
    "lstm": "compares values, and stops where they differ",
    "moe_right": "passes by experts that no token chooses",
    "offload_optimizer_states": "keeps the weights only where the loss is the least",
    "optimizer_zoo": "LBFGS stops by its loss",
    "sparse_embedding": "as many rows as there are words",
    "sparse_right": "looks up a pair of the indices that it has read",
    "streams_events": "compares values, and stops where they differ",
    "cpu_indices": "compares values, and stops where they differ",
}
"""Programs that go another way where not a single value is known."""


@pytest.mark.parametrize("keep", ["64KiB", "0"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, marks=[] if path.stem in EVERYDAY else pytest.mark.slow, id=f"{path.parent.name}-{path.stem}"
        )
        for path in ALL
    ],
)
def test_memory_is_that_of_the_run_with_values(program, tmp_path, path, keep):
    otherwise = OTHERWISE | BY_VALUES if keep == "0" else OTHERWISE
    if path.stem in otherwise:
        pytest.skip(otherwise[path.stem])
    # What is small is made in other calls where it is not computed: bytes are compared, and how often they are taken
    # where they are.
    told = ("MEMORY",) if keep == "0" else ("MEMORY", "CALLS")
    # A thread of autograd's may let go of its last buffers a moment after the program has gone on: then the peak is
    # another, with values and without.
    dry, with_values = set(), set()
    for _ in range(10):
        dry.add(memory(program, tmp_path, path, told, "--dry", "--dry-keep", keep))
        with_values.add(memory(program, tmp_path, path, told))
        if dry & with_values:
            return
    pytest.fail(f"{dry} without values, {with_values} with them")


def test_what_a_loss_keeps_is_what_it_keeps_on_a_card(tmp_path):
    """A mean of these has room for all that it is the mean of: 4 MiB that stay, and 4 more while it is taken."""
    source = """
        import torch
        from torch.nn import functional as F
        x, y = torch.rand(1 << 20, device="cuda"), torch.rand(1 << 20, device="cuda")
        before = torch.cuda.memory_allocated()
        for loss in (F.mse_loss, F.smooth_l1_loss, F.binary_cross_entropy, F.huber_loss, F.l1_loss):
            torch.cuda.reset_peak_memory_stats()
            value = loss(x, y)
            print(torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before)
            del value
    """
    with_values, _ = locus(tmp_path, "run", source=source, status=0)
    dry, _ = locus(tmp_path, "run", "--dry", "program.py", status=0)
    assert dry == with_values
    assert dry.splitlines()[0] == f"{4 << 20} {8 << 20}"


NORMS_OF_HALVES = """
import torch
from torch.nn import functional as F
half = torch.HALF
def tell(norm, x):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    def now():
        print(torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before)
    y = norm(x)
    now()
    y.float().sum().backward()
    now()
rows = torch.rand(1 << 16, 8, device="cuda", dtype=half, requires_grad=True)
channels = torch.rand(2, 1 << 16, 2, device="cuda", dtype=half, requires_grad=True)
groups = torch.rand(1 << 12, 64, 4, device="cuda", dtype=half, requires_grad=True)
gain = torch.ones(8, device="cuda", dtype=half, requires_grad=True)
single = torch.ones(1 << 16, device="cuda", requires_grad=True)
tell(lambda x: F.layer_norm(x, (8,)), rows)
tell(lambda x: F.layer_norm(x, (8,), gain, gain), rows)
tell(lambda x: F.batch_norm(x, None, None, training=True), channels)
tell(lambda x: F.batch_norm(x, None, None, single, single, training=True), channels)
tell(F.instance_norm, groups)
tell(lambda x: F.group_norm(x, 32), groups)
tell(lambda x: F.rms_norm(x, (8,)), rows)
"""


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_statistics_of_halves_are_single_as_on_a_card(tmp_path, half):
    """The CPU's kernels keep them in half precision, a card's in single; those of groups have their input's on both."""
    with_values, _ = locus(tmp_path, "run", source=NORMS_OF_HALVES.replace("HALF", half), status=0)
    dry, _ = locus(tmp_path, "run", "--dry", "program.py", status=0)
    assert dry == with_values
    layer, batch, groups = (with_values.splitlines()[i].split()[0] for i in (0, 4, 10))
    assert int(layer) == (1 << 16) * (8 * 2 + 2 * 4)
    assert int(batch) == (1 << 16) * (4 * 2 + 2 * 4)
    assert int(groups) == (1 << 12) * (256 * 2 + 32 * 2 * 2)


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
