"""Where the machine under the simulated devices is short of memory or of address space: the program goes on with what
there is, or is told what is short. And a reader that leaves early is no error."""

import os
import resource
import subprocess
import sys

import pytest
import torch
from locus.errors import HostMemoryError, LocusError
from simulated import simulated

import locus

GIB = 1 << 30
DEADLINE = 300


def run_locus(*arguments, env=None, limit=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LOCUS_")}
    return subprocess.run(
        [sys.executable, "-m", "locus", *map(str, arguments)],
        env={**clean, **(env or {})},
        preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def allow(more):
    """Lets this process have so much more address space than it has now."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def train(device):
    model = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        loss = model(torch.randn(8, 64, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@pytest.mark.parametrize("gibibytes,devices", [(3, 1), (3, 2), (7, 1), (7, 8), (15, 2), (15, 8)])
@simulated(devices=None)
def test_a_small_address_space_is_enough_to_train_in(gibibytes, devices):
    allow(gibibytes * GIB)
    locus.simulate(devices=devices)
    assert train(f"cuda:{devices - 1}") > 0


@simulated(devices=None)
def test_a_slice_that_is_used_up_is_not_the_cards_fault():
    allow(3 * GIB)
    locus.simulate(devices=2, memory="80GiB")
    kept = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
        raise AssertionError("there is no room for it")
    except HostMemoryError as error:
        assert "cuda:0 has room for 10.00 GiB more" in str(error) and "ulimit -v" in str(error)
    assert torch.cuda.memory_allocated() == 100 << 20 and torch.cuda.memory_stats()["num_ooms"] == 0
    assert kept.fill_(1).max().item() == 1


def test_too_small_an_address_space_is_said_once():
    result = run_locus("run", "--devices", "64", "-c", "import torch; print('ran')", limit=8 * GIB)
    assert result.returncode == 2 and result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("locus: error: 64 simulated devices need at least ")
    assert lines[0].count("locus: ") == 1 and "ulimit -v" in lines[0] and "--devices" in lines[0]


@simulated(devices=1, env={"LOCUS_HOST_MEMORY": "300MiB"})
def test_out_of_host_memory_is_an_error_of_its_own():
    def ones(mebibytes):
        return torch.ones(mebibytes << 20, dtype=torch.uint8, device="cuda")

    kept = [ones(100), ones(100)]
    try:
        ones(150)
        raise AssertionError("it does not fit")
    except HostMemoryError as error:
        # A program that looks for a batch that fits must not take this for the card's answer.
        assert isinstance(error, (LocusError, MemoryError)) and not isinstance(error, RuntimeError)
        assert "not the simulated card" in str(error) and "LOCUS_HOST_MEMORY leaves" in str(error)
        assert "CUDA out of memory" not in str(error)
    assert torch.cuda.memory_stats()["num_ooms"] == 0
    kept.pop()
    assert ones(90).max().item() == 1, "what was freed can be used"


@simulated(devices=1, env={"LOCUS_HOST_MEMORY": "200MiB"})
def test_memory_that_nobody_fills_is_free():
    big = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
    big[:10] = 7
    big[torch.tensor([5, -1], device="cuda")] = 9
    assert big[4:6].tolist() == [7, 9] and big[-1].item() == 9
    small = torch.full((1 << 20,), 3.0, device="cuda")
    assert small.add_(1).sum().item() == 4 << 20
    for fill in (lambda: big.fill_(1), lambda: big.copy_(torch.zeros(1, dtype=torch.uint8).expand(60 << 30))):
        try:
            fill()
            raise AssertionError("it does not fit")
        except HostMemoryError as error:
            assert "60.00 GiB more" in str(error) or "59." in str(error)


@simulated(devices=1, env={"LOCUS_HOST_MEMORY": "off"})
def test_the_look_at_the_host_can_be_switched_off():
    assert torch.ones(64 << 20, dtype=torch.uint8, device="cuda").max().item() == 1


@simulated(devices=1, env={"LOCUS_HOST_MEMORY": "100MiB"})
def test_in_backward_too():
    x = torch.ones(8 << 20, device="cuda", requires_grad=True)
    y = (x * 2).sum()
    held = torch.ones(40 << 20, dtype=torch.uint8, device="cuda")
    try:
        y.backward()
        raise AssertionError("the gradient does not fit")
    except HostMemoryError:
        assert held.numel() == 40 << 20


def test_a_check_ends_with_what_it_found(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "x = torch.ones(4, device='cuda') + torch.ones(4)\n"
        "kept = [torch.ones(64 << 20, dtype=torch.uint8, device='cuda') for _ in range(10)]\n"
        "print('never')\n"
    )
    result = run_locus("check", path, env={"LOCUS_HOST_MEMORY": "200MiB"})
    assert result.returncode == 1 and "never" not in result.stdout
    assert "LOC" in result.stdout + result.stderr and "HostMemoryError: the host is out of memory" in result.stderr
    assert "no placement mistakes" not in result.stdout


def test_a_wrong_size_is_refused():
    result = run_locus("run", "-c", "import torch", env={"LOCUS_HOST_MEMORY": "12parsecs"})
    assert result.returncode == 2 and "LOCUS_HOST_MEMORY='12parsecs'" in result.stderr and "off" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["codes"], ["doctor"]], ids=" ".join)
def test_a_reader_that_leaves_early_is_no_error(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "locus", *arguments], stdout=writing, stderr=subprocess.PIPE, timeout=DEADLINE
        )
    finally:
        os.close(writing)
    assert done.stderr == b"" and done.returncode == 0
