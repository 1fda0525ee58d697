"""What dry runs cost: a single call, and a training step of a Llama-like model against PyTorch's own way to run without
values, in processor time.

FakeTensorMode has no CUDA device in a CPU build, so that it runs the same model on the CPU, and stops at `.item()`,
which is taken out for it.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from calls import CALLS
from measure import Budget, Contender, compare
from table import Row, format_time
from worker import Worker, WorkerError

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLAMA = ROOT / "tests" / "programs" / "dry" / "llama.py"
LARGE = {
    "70B": (["80", "8192", "28672", "64", "8", "128256"], 25.0),
    "405B": (["126", "16384", "53248", "128", "8", "128256"], 60.0),
}
"""Arguments of the program, and the seconds from start to report that are the bar."""
LARGE_MEMORY = 3 << 29  # bytes of the host, of the first of them
ROOM = "16TiB"  # of the card: what is out of memory is a finding, and this is to have none

CALL = "One dry call of large operands, against the same on the CPU without elements"
CALL_BAR = 2.5e-6
CALL_SHARE = 12  # of the time that other measurements get: there are many, and each is short
DRY = "A training step of a 7B model without values, processor time against PyTorch's own ways"

_FAKE = """\
from torch._subclasses.fake_tensor import FakeTensorMode
FakeTensorMode().__enter__()
"""
_TRACKER = """\
from torch.distributed._tools.mem_tracker import MemTracker
tracker = MemTracker()
tracker.track_external(model, optimizer)
tracker.__enter__()
for step in range(1):"""


def dry_calls(plain: Worker, budget: Budget) -> Iterator[Row]:
    """What a dry call of a common operator costs beyond an empty call of it."""
    share = budget._replace(seconds=budget.seconds / CALL_SHARE)
    dry = Worker("dry")
    try:
        for workload in CALLS:
            results = compare({"empty": Contender(plain, workload), "dry": Contender(dry, workload)}, share)
            empty, ours = results["empty"].best, results["dry"].best
            shown = format_time(empty), format_time(ours)
            yield Row(CALL, workload.removeprefix("call "), "seconds", ours - empty, CALL_BAR, *shown)
    finally:
        dry.close()
        plain.forget()


def dry_runs() -> Iterator[Row]:
    """Rows for the table."""
    dry = _seconds([sys.executable, "-m", "locus", "run", "--dry", str(LLAMA)])
    # MemTracker takes one step only: the first of both are compared, and the last ones otherwise.
    for name, bar, tracked in (("FakeTensorMode", 8.0, False), ("FakeTensorMode and MemTracker", 60.0, True)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "fake.py"
            path.write_text(_faked(tracked))
            fake, ours = _seconds([sys.executable, str(path)])[-1], dry[0 if tracked else -1]
        yield Row(DRY, f"against {name}", "gain", fake / ours, bar, format_time(fake), format_time(ours))
    for size, (arguments, bar) in LARGE.items():
        began = time.perf_counter()
        most = _resident([sys.executable, "-m", "locus", "check", "--dry", "--memory", ROOM, str(LLAMA), *arguments])
        took = time.perf_counter() - began
        yield Row(DRY, f"{size}, checked, from start to report, by the clock", "seconds", took, bar)
        yield Row(DRY, f"{size}, checked, memory of the host", "bytes", most, LARGE_MEMORY if size == "70B" else None)


def _faked(tracked: bool) -> str:
    text = LLAMA.read_text().replace('.to("cuda")', "").replace('"cuda"', '"cpu"')
    text = text.replace("loss.item(), torch.cuda.max_memory_allocated()", "0")
    text = text.replace("torch.manual_seed(0)\n", _FAKE, 1)
    return text.replace("for step in range(3):", _TRACKER, 1) if tracked else text


def _seconds(command: list[str]) -> list[float]:
    """The processor time of each step, which the program itself tells."""
    return [float(each) for each in re.findall(r"([\d.]+) CPU-s", _run(command))]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkerError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stderr


def _resident(command: list[str]) -> int:
    """The largest resident size of a command, in bytes."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # nobody is to wait for it again
        if process.returncode:
            said.seek(0)
            raise WorkerError(f"{' '.join(command)} ended with {process.returncode}:\n{said.read()[-2000:]}")
    return usage.ru_maxrss * 1024
