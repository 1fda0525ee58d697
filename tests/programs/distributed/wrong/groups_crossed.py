import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

one, two = dist.new_group(), dist.new_group()
value = torch.ones(2, device="cuda")
for group in (one, two) if rank == 0 else (two, one):
# FIX: for group in (one, two):
    dist.all_reduce(value, group=group)  # BUG: ranks-part-ways
dist.destroy_process_group()
