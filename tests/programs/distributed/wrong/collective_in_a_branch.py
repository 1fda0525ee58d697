import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

total = torch.ones(4, device="cuda")
if rank == 0:
    dist.broadcast(total, 0)
    dist.all_reduce(total)
else:
    # ADD: dist.broadcast(total, 0)
    dist.all_reduce(total)  # BUG: ranks-part-ways
    dist.broadcast(total, 0)
    # FIX:
dist.destroy_process_group()
