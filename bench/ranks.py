"""Two processes that train one DistributedDataParallel model together, as one worker: on the CPU with Gloo, or on
simulated devices with the backend nccl, checked too.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from worker import Timing, WorkerError

RANKS = 2


class RankPair:
    """The other end: two ranks that do the same request at the same time."""

    def __init__(self, mode: str):
        self.mode, self.device = mode, "cpu" if mode == "plain" else "cuda"
        self._folder = tempfile.TemporaryDirectory(prefix="locus-bench-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        plain = {key: value for key, value in os.environ.items() if not key.startswith("LOCUS_")}
        plain.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", WORLD_SIZE=str(RANKS))
        plain.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        if mode == "checked":
            plain["LOCUS_CHECK_DIR"] = self._folder.name
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), mode]
        self._ranks = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**plain, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(RANKS)
        ]

    def run(self, workload: str, n: int, device: str = "") -> Timing:
        """Runs n steps on both ranks; the slower one counts."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(json.dumps({"workload": workload, "n": n}) + "\n")
            rank.stdin.flush()
        answers = []
        for rank in self._ranks:
            assert rank.stdout is not None
            line = rank.stdout.readline()
            if not line:
                raise WorkerError(f"a {self.mode} rank has died (exit status {rank.wait()})")
            answers.append(json.loads(line))
        return Timing(max(wall for wall, _ in answers), max(cpu for _, cpu in answers))

    def forget(self) -> None:
        """Nothing is kept but the one model."""

    def close(self) -> None:
        """Ends both."""
        for rank in self._ranks:
            if rank.stdin is not None:
                rank.stdin.close()
        for rank in self._ranks:
            try:
                rank.wait(timeout=10)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
        self._folder.cleanup()


def _make_step(device: str, backend: str) -> Any:
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel
    from workloads import GPT

    rank = int(os.environ["RANK"])
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend)
    torch.manual_seed(0)
    model = DistributedDataParallel(GPT().to(device), device_ids=[rank] if device == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ids = torch.randint(0, 512, (4, 128), device=device)

    def steps(n: int) -> None:
        for _ in range(n):
            loss = cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return steps


def serve(mode: str) -> None:
    """One rank: answers requests until the input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    if mode != "plain":
        import locus

        locus.simulate(devices=RANKS)
    if mode == "checked":
        from locus.process import children

        children.start_in_child()
    steps = _make_step("cpu" if mode == "plain" else "cuda", "gloo" if mode == "plain" else "nccl")
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        steps(json.loads(line)["n"])
        replies.write(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]) + "\n")
        replies.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    serve(sys.argv[1])
