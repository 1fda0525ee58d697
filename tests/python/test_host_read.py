"""A host that follows a device pointer: on a card that is a crash or silent nonsense, here it is caught and named."""

import os
import re
import signal
import subprocess
import sys

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


def test_a_signal_that_was_sent_ends_the_program(program):
    result = program.run_source(
        "import os, signal, torch\nos.kill(os.getpid(), signal.SIGSEGV)\nprint('still here')\n", simulate=1
    )
    assert (result.code, result.stdout) == (-signal.SIGSEGV, ""), result.describe()


@pytest.mark.parametrize("first", ["", "faulthandler.enable(); "], ids=["after", "again"])
@pytest.mark.parametrize("enable", ["faulthandler.enable()", "faulthandler.enable(); faulthandler.disable()"])
def test_both_handlers_speak(program, first, enable):
    """Python's own handler would send the signal on without its address; so Locus's stays above it."""
    result = program.run_source(
        f"""
import ctypes, faulthandler, torch
{first}{enable}
ctypes.string_at(torch.ones(1, device="cuda").data_ptr(), 1)
""",
        simulate=1,
    )
    assert result.code == -signal.SIGSEGV, result.describe()
    assert result.stderr.count("host code followed a pointer into device memory") == 1, result.describe()
    spoken = 0 if "disable" in enable else 1
    assert result.stderr.count("Fatal Python error: Segmentation fault") == spoken, result.describe()


HOLDERS = {
    # C's standard input: held by whoever waits for it, wanted by whoever flushes all streams.
    "a stream": """
ready, _ = os.pipe()
os.dup2(ready, 0)
threading.Thread(target=ctypes.CDLL(None).getchar, daemon=True).start()
time.sleep(0.3)
ctypes.string_at(t.data_ptr(), 4)
""",
    # The interpreter: these calls are made with its lock held, and a thread of C's follows the pointer.
    "the interpreter": """
c, name = ctypes.PyDLL(None), ctypes.c_ulong()
address = ctypes.c_void_p(t.data_ptr())
c.pthread_create(ctypes.byref(name), None, c.strlen, address)
c.usleep(30_000_000)
""",
    # Standard error itself: a pipe that nobody reads.
    "standard error": """
reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, bytes(4096))
except BlockingIOError:
    os.set_blocking(writer, True)
os.dup2(writer, 2)
ctypes.string_at(t.data_ptr(), 4)
""",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_end_waits_for_nobody(program, holder):
    text = "import ctypes, os, sys, threading, time, torch\nt = torch.ones(4, device='cuda')\n" + HOLDERS[holder]
    result = program.run_source(text, simulate=1, deadline=15)
    assert (result.code, result.timed_out) == (-signal.SIGSEGV, False), result.describe()
    assert ("program.py:2" in result.stderr) == (holder != "standard error"), result.describe()


LOCKED_HEAP = """
#include <stddef.h>
#include <unistd.h>
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
int heap_is_locked = 0;
void* malloc(size_t size) { while (heap_is_locked) pause(); return __libc_malloc(size); }
void free(void* p) { while (heap_is_locked) pause(); __libc_free(p); }
"""


def test_the_heap_may_be_locked(tmp_path):
    """A fault inside malloc(), or while another thread is in there."""
    source, library, script = tmp_path / "heap.c", tmp_path / "heap.so", tmp_path / "program.py"
    source.write_text(LOCKED_HEAP)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    script.write_text(
        "import ctypes, torch\n"
        "t = torch.ones(4, device='cuda')\n"
        "flag = ctypes.c_int.in_dll(ctypes.CDLL(None), 'heap_is_locked')\n"
        "memset, address = ctypes.CDLL(None).memset, ctypes.c_void_p(t.data_ptr())\n"
        "one = ctypes.c_int(1)\n"
        "ctypes.memmove(ctypes.addressof(flag), ctypes.addressof(one), 4), memset(address, 1, 4)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "locus", "run", str(script)],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "pymalloc"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == -signal.SIGSEGV and "program.py:2" in result.stderr, result.stderr


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
