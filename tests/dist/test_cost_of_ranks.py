"""What a rank with values takes in a check: processor time beside one process of the same program without Locus, and
memory beside a rank of it without Locus, shared pages counted once. All processes of a check count."""

import json
import os
import resource
import socket
import subprocess
import sys

import pytest

RANKS = 8

PROGRAM = """
import json, os, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

folder, kind = sys.argv[1:]
rank, local = os.environ.get("RANK", "0"), int(os.environ.get("LOCAL_RANK", "0"))
torch.set_num_threads(1)
torch.manual_seed(0)
if kind == "check":
    torch.cuda.set_device(local)
device = torch.device("cuda", local) if kind == "check" else torch.device("cpu")
if kind != "alone":
    dist.init_process_group("nccl" if kind == "check" else "gloo")
layers = [nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0) for _ in range(4)]
model = nn.Sequential(nn.Embedding(1000, 256), *layers, nn.Linear(256, 1000)).to(device)
if kind != "alone":
    model = DistributedDataParallel(model, device_ids=[local] if kind == "check" else None)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3 if kind == "plain" else 30):
    x = torch.randint(0, 1000, (8, 64), device=device)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if kind != "alone":
    dist.barrier()  # all are there, so that what is shared is shared
with open("/proc/self/smaps_rollup") as file:
    pss = next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
with open(f"{folder}/{kind}-{rank}", "w") as file:
    json.dump(pss, file)
if kind != "alone":
    dist.barrier()
    dist.destroy_process_group()
"""


def processor_time():
    """Seconds of all processes that this one has started, and those that they have."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_plainly(folder, kind):
    """All at one time, without Locus: what slows the ranks of a check down does the same to these."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    told = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "train.py", str(folder), kind]
    ranks = [subprocess.Popen(words, cwd=folder, env={**os.environ, **told, "RANK": str(n)}) for n in range(RANKS)]
    assert [rank.wait(timeout=1800) for rank in ranks] == [0] * RANKS


def check(folder):
    words = [sys.executable, "-m", "locus", "check", "--nproc", str(RANKS), "train.py", str(folder), "check"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=1800, env=environment)
    assert done.returncode == 0, done.stderr


def memory_of_a_rank(folder, kind):
    return sum(json.loads((folder / f"{kind}-{rank}").read_text()) for rank in range(RANKS)) / RANKS


@pytest.mark.slow
def test_a_rank_costs_little_more_than_the_program_itself(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    run_plainly(tmp_path, "plain")
    began = processor_time()
    run_plainly(tmp_path, "alone")
    alone = (processor_time() - began) / RANKS
    check(tmp_path)
    checked = (processor_time() - began) / RANKS - alone
    more = memory_of_a_rank(tmp_path, "check") - memory_of_a_rank(tmp_path, "plain")
    print(f"a rank: {checked / alone:.2f} of {alone:.1f} s, and {more / (1 << 20):+.1f} MiB")
    assert checked <= 1.3 * alone, (checked, alone)
    assert more <= 60 << 20, more
