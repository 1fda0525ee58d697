import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

lengths = torch.ones(3 + rank, device="cuda")
# FIX: lengths = torch.ones(4, device="cuda")
dist.all_reduce(lengths)  # BUG: ranks-part-ways
dist.destroy_process_group()
