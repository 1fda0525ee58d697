"""Counts the instructions of a step, in this process: exactly, by single-stepping (single_step.cc). Thousands of times
slower than the step itself, but another program on the machine does not change it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path


class Counter:
    """Counts what the main thread and autograd's threads do."""

    def __init__(self, folder: str):
        program = os.path.join(folder, "single_step")
        source = Path(__file__).with_name("single_step.cc")
        subprocess.run([os.environ.get("CXX", "c++"), "-O2", "-std=c++20", "-o", program, source], check=True)
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        _let_children_trace()

    def count(self, step: Callable[[], object]) -> int:
        """The instructions of one step."""
        empty = self._count(lambda: None)
        return self._count(step) - empty

    def _count(self, step: Callable[[], object]) -> int:
        tell, hear = self.process.stdin, self.process.stdout
        assert tell is not None and hear is not None
        tell.write(" ".join(map(str, _threads())).encode() + b"\n")
        tell.flush()
        assert os.read(hear.fileno(), 3) == b"go\n"
        step()
        signal.raise_signal(signal.SIGUSR2)  # the counter takes it
        return int(hear.readline())


def _threads() -> list[int]:
    """This one, and those that run the backward pass."""
    found = [threading.get_native_id()]
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("pt_autograd"):
            found.append(int(task.name))
    return found


def _let_children_trace() -> None:
    """Where only parents may trace (Yama)."""
    import ctypes

    set_ptracer, anybody = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None).prctl(set_ptracer, anybody, 0, 0, 0)
