import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

loss, correct = torch.ones(1, device="cuda"), torch.ones(4, device="cuda")
if dist.get_rank() % 2 == 0:
    dist.all_reduce(loss)
    dist.all_reduce(correct)
else:
    # ADD: dist.all_reduce(loss)
    dist.all_reduce(correct)  # BUG: ranks-part-ways
    dist.all_reduce(loss)
    # FIX:
dist.destroy_process_group()
