import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

correct = torch.tensor([3.0 + rank])
# FIX: correct = torch.tensor([3.0 + rank], device="cuda")
dist.all_reduce(correct)  # BUG: cpu-collective
print(correct.item())
dist.destroy_process_group()
