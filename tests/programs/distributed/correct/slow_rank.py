# finds: nothing
"""A rank that takes its time is no mistake, nor is a CPU tensor in a group of Gloo."""
import os
import time

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
value = torch.ones(1, device="cuda")
dist.all_reduce(value)
if rank == 0:
    time.sleep(4)
dist.all_reduce(value)
assert value.item() == 4
on_hosts = dist.new_group(backend="gloo")
count = torch.ones(1)
dist.all_reduce(count, dist.ReduceOp.SUM, on_hosts)  # a group by position
assert count.item() == 2
dist.destroy_process_group()
