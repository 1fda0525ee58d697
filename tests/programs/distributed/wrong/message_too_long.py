import os

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")

hidden = torch.ones(4, 8, device="cuda")
if rank == 0:
    dist.send(hidden, dst=1)
else:
    received = torch.empty(4, 6, device="cuda")
    # FIX: received = torch.empty(4, 8, device="cuda")
    dist.recv(received, src=0)  # BUG: ranks-part-ways
dist.destroy_process_group()
