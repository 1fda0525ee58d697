"""A host that follows a device pointer: on a card that is a crash or silent nonsense, here it is caught and named."""

import re
import signal

import pytest

READ = """
import ctypes, torch
def make():
    return torch.zeros(300, dtype=torch.float64, device="cuda:1")  # made here
t = make()
print("before", flush=True)
{access}
print("after", flush=True)
"""


@pytest.mark.parametrize(
    "access",
    [
        "ctypes.string_at(t.data_ptr(), 4)",
        "ctypes.memset(t.data_ptr() + 2000, 1, 8)",
        "ctypes.c_double.from_address(t[10:].data_ptr()).value",
    ],
    ids=["read", "write", "inside"],
)
def test_a_stray_access_is_caught_and_named(program, access):
    result = program.run_source(READ.format(access=access), simulate=2)
    assert result.code == -signal.SIGSEGV, result.describe()
    assert result.stdout == "before\n"
    assert "cuda:1" in result.stderr and re.search(r"program\.py:4\b", result.stderr), result.describe()
    assert re.search(r"\b2,?400\b|float64\[300\]", result.stderr), (
        "its size in bytes, or its dtype and shape: " + result.stderr
    )


def test_after_it_was_freed(program):
    result = program.run_source(READ.format(access="p = t.data_ptr(); del t; ctypes.string_at(p, 4)"), simulate=2)
    assert result.code == -signal.SIGSEGV and result.stdout == "before\n", result.describe()


def test_a_plain_segmentation_fault_stays_what_it_was(program):
    result = program.run_source(
        "import ctypes, torch\ntorch.ones(1, device='cuda')\nctypes.string_at(8, 1)\n", simulate=1
    )
    assert result.code == -signal.SIGSEGV and "cuda:" not in result.stderr, result.describe()


def test_faulthandler_still_works(program):
    result = program.run_source(
        "import ctypes, faulthandler, torch\n"
        "faulthandler.enable()\n"
        "torch.ones(1, device='cuda')\n"
        "ctypes.string_at(8, 1)\n",
        simulate=1,
    )
    assert (
        result.code == -signal.SIGSEGV
        and "Segmentation fault" in result.stderr
        and 'program.py", line 4' in result.stderr
    ), result.describe()


def test_legal_ways_to_the_host_work(program):
    program.run_source(
        """
import ctypes, torch
t = torch.arange(3.0, device="cuda")
host = t.cpu()
assert ctypes.c_float.from_address(host.data_ptr() + 4).value == 1.0
assert host.numpy().tolist() == [0, 1, 2] and t.tolist() == [0, 1, 2] and t[2].item() == 2
""",
        simulate=1,
    ).ok()
