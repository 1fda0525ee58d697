"""One process that runs workloads on request: plain, simulated, simulated and checked, or dry.

A simulation lasts as long as its process, so what is compared lives in processes of its own. Requests and answers are
lines of JSON on standard input and output; anything a workload prints goes to standard error. The other end is Worker.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NamedTuple

MODES = ("plain", "simulated", "checked")
ALL_MODES = (*MODES, "dry")  # with the one that has no values to compare


class Timing(NamedTuple):
    """How long one request took."""

    wall: float
    cpu: float  # of all threads of the process


class WorkerError(RuntimeError):
    """A worker has died or a workload in it has failed."""


class Worker:
    """The other end: a worker process that waits for requests."""

    def __init__(self, mode: str):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LOCUS_")}
        environment.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        self.mode = mode
        self.device = "cpu" if mode == "plain" else "cuda:0"
        self._process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).resolve()), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._ask({"do": "hello"})

    def run(self, workload: str, n: int, device: str = "") -> Timing:
        """Runs a workload n times. It is made at the first request and kept."""
        return Timing(*self._ask({"do": "run", "workload": workload, "device": device or self.device, "n": n}))

    def forget(self) -> None:
        """Frees what the workloads hold."""
        self._ask({"do": "forget"})

    def memory(self) -> dict[str, int]:
        """The size of the process in bytes, and of Locus's tables where there are any."""
        return self._ask({"do": "memory"})

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"the {self.mode} worker has died (exit status {self._process.wait()})")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"the {self.mode} worker could not do {request}: {answer['error']}")
        return answer["value"]


def _memory() -> dict[str, int]:
    import gc

    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    sizes = {"resident": pages * os.sysconf("SC_PAGE_SIZE")}
    bridge = sys.modules.get("locus._bridge")
    if bridge is not None:
        counts = bridge.op_counts()
        sizes.update(origins=counts["origins"], sites=counts["sites"])
    return sizes


class _Service:
    def __init__(self) -> None:
        self.ready: dict[tuple[str, str], Any] = {}

    def run(self, workload: str, device: str, n: int) -> list[float]:
        from workloads import WORKLOADS

        key = (workload, device)
        if key not in self.ready:
            self.ready[key] = WORKLOADS[workload](device)
        step = self.ready[key]
        wall, cpu = time.perf_counter(), time.process_time()
        step(n)
        return [time.perf_counter() - wall, time.process_time() - cpu]

    def answer(self, request: dict[str, Any]) -> Any:
        if request["do"] == "run":
            return self.run(request["workload"], request["device"], request["n"])
        if request["do"] == "forget":
            self.ready.clear()
        return _memory() if request["do"] == "memory" else None


def serve(mode: str) -> None:
    """Sets the process up and answers requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    session = None
    if mode != "plain":
        import locus

        locus.simulate(devices=1, dry=mode == "dry")
    if mode == "checked":
        from locus.process.session import Session

        session = Session()
        session.start()
    service = _Service()
    for line in sys.stdin:
        try:
            reply = {"value": service.answer(json.loads(line))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    if session is not None:
        session.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ALL_MODES:
        sys.exit(f"usage: worker.py {'|'.join(ALL_MODES)}")
    serve(sys.argv[1])
