import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

seen = torch.zeros(1, device="cuda")
for step in range(3 + (rank == 0)):
# FIX: for step in range(3):
    dist.all_reduce(seen)  # BUG: rank-missing
