import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

total = torch.ones(4, device="cuda:0")  # BUG: shared-device
# FIX: total = torch.ones(4, device="cuda")
dist.all_reduce(total)
dist.destroy_process_group()
