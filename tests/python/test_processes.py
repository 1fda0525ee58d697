"""Child processes: fork is refused once the device is in use, as on a card; spawn and forkserver get the machine."""

import os
import subprocess
import sys

import pytest

FORK = """
import os, torch
{before}
child = os.fork()
if child == 0:
    try:
        print("child", torch.ones(2, device="cuda").sum().item(), flush=True)
        os._exit(0)
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
        os._exit(1)
print("code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("before", ["torch.ones(1, device='cuda')", "torch.cuda.is_available()"])
def test_fork_after_use_is_refused(program, before):
    """Asking whether there is a device counts as use: it does on a card."""
    result = program.run_source(FORK.format(before=before), simulate=1).ok()
    assert result.stdout.startswith("Cannot re-initialize CUDA in forked subprocess") and result.stdout.endswith(
        "code 1\n"
    ), result.describe()


def test_fork_before_use_is_fine(program):
    assert program.run_source(FORK.format(before=""), simulate=1).ok().stdout == "child 2.0\ncode 0\n"


def test_a_forked_child_may_use_the_cpu(program):
    result = program.run_source(
        """
import os, torch
kept = torch.ones(3, device="cuda")
child = os.fork()
if child == 0:
    print("child", (torch.ones(4) * 2).sum().item(), torch.cuda._is_in_bad_fork(), flush=True)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("code", code, kept.sum().item())
""",
        simulate=1,
    ).ok()
    assert result.stdout == "child 8.0 True\ncode 0 3.0\n", result.describe()


def test_multiprocessing_fork_names_the_way_out(program):
    result = program.run_source(
        """
import torch, torch.multiprocessing as mp
def work(queue):
    try:
        torch.cuda.synchronize()
        torch.ones(1).cuda()
    except RuntimeError as error:
        queue.put(str(error))
torch.ones(1).cuda()
context = mp.get_context("fork")
queue = context.Queue()
worker = context.Process(target=work, args=(queue,))
worker.start()
print(queue.get(timeout=30))
worker.join()
""",
        simulate=1,
    ).ok()
    assert "Cannot re-initialize CUDA in forked subprocess" in result.stdout and "spawn" in result.stdout


def test_spawn_gets_the_same_machine(program):
    result = program.run_source(
        """
import torch, torch.multiprocessing as mp
def work(rank, total):
    x = torch.full((2,), float(rank), device=f"cuda:{rank}")
    print(rank, torch.cuda.device_count(), x.sum().item(), torch.cuda.mem_get_info(rank)[1] == total, flush=True)
if __name__ == "__main__":
    torch.ones(1, device="cuda")
    mp.spawn(work, args=(3 << 30,), nprocs=1)
    mp.start_processes(work, args=(3 << 30,), nprocs=2, start_method="spawn")
""",
        simulate={"devices": 2, "memory": "3GiB"},
        deadline=90,
    ).ok()
    assert sorted(result.stdout.splitlines()) == ["0 2 0.0 True", "0 2 0.0 True", "1 2 2.0 True"]


def test_device_tensors_do_not_cross_processes_silently(program):
    """A tensor in shared device memory is beyond a simulated device: it may work, or say so; never wrong values."""
    result = program.run_source(
        """
import torch, torch.multiprocessing as mp
def work(queue):
    queue.get()
if __name__ == "__main__":
    queue = mp.get_context("spawn").Queue()
    worker = mp.get_context("spawn").Process(target=work, args=(queue,), daemon=True)
    from multiprocessing.reduction import ForkingPickler
    try:
        ForkingPickler.dumps(torch.ones(3, device="cuda"))
        print("works")
    except Exception as error:
        print("refused", "not simulated" in str(error))
""",
        simulate=1,
        deadline=90,
    ).ok()
    assert result.stdout in ("works\n", "refused True\n"), result.describe()


def test_data_loader_workers_and_pinning(program):
    result = program.run_source(
        """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.ones(1, device="cuda")
data = TensorDataset(torch.arange(8.0))
loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=True, persistent_workers=True)
for _ in range(2):
    print([(b.is_pinned(), b.cuda(non_blocking=True).sum().item()) for (b,) in loader])
""",
        simulate=1,
    ).ok()
    assert result.stdout == "[(True, 6.0), (True, 22.0)]\n" * 2


VISIBLE = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = {value!r}
import torch
print(torch.accelerator.device_count(), torch.cuda.device_count(), torch.cuda.is_available())
try:
    print(torch.ones(1, device="cuda:1").device)
except (RuntimeError, AssertionError) as error:
    print(str(error).splitlines()[0])
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
print(torch.cuda.device_count())
"""


@pytest.mark.parametrize(
    "value, said",
    [
        ("1", "1 1 True\nCUDA error: invalid device ordinal\n1\n"),
        ("2,0", "2 2 True\ncuda:1\n2\n"),
        ("", "0 0 False\nNo CUDA GPUs are available\n0\n"),
    ],
)
def test_a_program_may_hide_devices_before_it_uses_one(program, value, said):
    assert program.run_source(VISIBLE.format(value=value), simulate=4).ok().stdout == said


def test_what_is_hidden_outside_is_the_real_machine(program):
    source = "import torch; print(torch.cuda.device_count())"
    assert program.run_source(source, simulate=4, env={"CUDA_VISIBLE_DEVICES": ""}).ok().stdout == "4\n"


def test_devices_are_hidden_before_pytorch_comes(tmp_path):
    source = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'; import torch; print(torch.cuda.device_count())"
    env = {**os.environ, "LOCUS_SIMULATE": "4", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", source], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    assert done.stdout == "1\n", done.stderr
