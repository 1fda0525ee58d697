"""Every thread is checked, whoever started it: its mistakes are found, counted and repaired; correct ones pass."""

import pytest
from checker import check_source

# Each kind runs work() once, in a thread of its kind, and waits for it.
STARTS = {
    "threading": "t = threading.Thread(target=work); t.start(); t.join()",
    "_thread": "done = threading.Event(); _thread.start_new_thread(lambda: (work(), done.set()), ()); done.wait()",
    "pool": "concurrent.futures.ThreadPoolExecutor(1).submit(work).result()",
    # A thread that C made and that calls back: nobody decides for it.
    "pthread": """
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def run(_):
    work()
name, c = ctypes.c_ulong(), ctypes.CDLL(None)
c.pthread_create(ctypes.byref(name), None, run, None)
c.pthread_join(name, None)
""",
    "rpc": """
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
rpc.init_rpc("one", rank=0, world_size=1, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
    init_method="file://" + tempfile.mktemp()))
rpc.rpc_async("one", work).wait()
rpc.shutdown()
""",
}
PROGRAM = """\
import _thread, concurrent.futures, ctypes, os, tempfile, threading, torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F

a = torch.arange(3.0, device="cuda:0")
b = torch.full((3,), 2.0, device={device!r})
weight = torch.ones(3, 3, device={device!r}, requires_grad=True)

def work():
    {first}
    for _ in range(4):
        total = a + b
    loss = F.linear(a, weight).sum()
    loss.backward()
    print(total.tolist(), weight.grad.tolist(), weight.grad.device.type, flush=True)

{start}
"""


def program_of(kind, device, first=""):
    return PROGRAM.format(device=device, start=STARTS[kind], first=first or "torch.ones(1, device='cuda')")


@pytest.mark.parametrize("kind", STARTS)
def test_a_mistake_in_a_thread(program, kind):
    right = check_source(program, program_of(kind, "cuda:0"))
    assert right.result.code == 0 and not right.findings, right.result.describe()
    wrong = check_source(program, program_of(kind, "cpu"))
    assert wrong.stdout == right.stdout.replace("cuda", "cpu"), wrong.result.describe()
    found = {finding["culprit"]["name"]: finding["count"] for finding in wrong.errors}
    assert found == {"b": 4, "weight": 1}, wrong.result.describe()
    assert wrong.report["program"]["ops"] >= right.report["program"]["ops"] >= 6


@pytest.mark.parametrize("kind", ["pthread"])
def test_the_first_call_of_a_thread(program, kind):
    """No door stands before it: the kernel itself reports. Where a gradient is recorded it can't be repaired."""
    checked = check_source(program, program_of(kind, "cpu", first="print((a * b).tolist())"))
    assert checked.stdout.startswith("[0.0, 2.0, 4.0]\n[2.0, 3.0, 4.0]"), checked.result.describe()
    assert sum(finding["count"] for finding in checked.errors) == 6, checked.result.describe()
    first = "try:\n        weight * a\n    except RuntimeError as error:\n        print(error)\n        raise"
    checked = check_source(program, program_of(kind, "cpu", first=first))
    assert checked.stdout.startswith("Expected all tensors to be on the same device"), checked.result.describe()
    assert {finding["culprit"]["name"] for finding in checked.errors} == {"weight"}, checked.result.describe()


def test_work_that_a_script_forks(program):
    text = """
import torch
@torch.jit.script
def add(a, b):
    return a + b
@torch.jit.script
def both(a, b):
    return torch.jit.wait(torch.jit.fork(add, a, b))
a = torch.ones(3, device="cuda")
b = torch.full((3,), 2.0{device})
print(both(a, b).tolist())
"""
    for device, found in ((", device='cuda'", 0), ("", 1)):
        checked = check_source(program, text.replace("{device}", device))
        assert checked.stdout == "[3.0, 3.0, 3.0]\n", checked.result.describe()
        assert len(checked.errors) == found, checked.result.describe()


def test_who_decided_is_heard(program):
    """A thread of C's inside a scope keeps to the process's policy; one of Python's to that of its starter."""
    text = """
import ctypes, threading, torch
import locus
a, b = torch.ones(3, device="cuda"), torch.ones(3)
def work():
    try:
        a + b
        print("went on")
    except RuntimeError:
        print("raised")
        raise
def quiet():
    try:
        work()
    except RuntimeError:
        pass
    except ZeroDivisionError:
        raise
with locus.policy("raise"):
    t = threading.Thread(target=quiet); t.start(); t.join()
with locus.policy("move"):
    t = threading.Thread(target=work); t.start(); t.join()
"""
    checked = check_source(program, text)
    assert checked.stdout == "raised\nwent on\n" and not checked.findings, checked.result.describe()


def test_counts_are_exact(program):
    text = """
import threading, torch
a, b = torch.ones(3, device="cuda"), torch.ones(3)
start = threading.Barrier(16)
def work():
    start.wait()
    for _ in range(200):
        a + b
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    checked = check_source(program, text)
    assert [(f["count"], [use["count"] for use in f["uses"]]) for f in checked.errors] == [(3200, [3200])]
    assert checked.report["program"]["ops"] == 3202
