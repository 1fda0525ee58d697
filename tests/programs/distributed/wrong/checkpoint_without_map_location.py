import os

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

net = nn.Linear(4, 2).cuda()
path = f"/tmp/locus-{os.environ['MASTER_PORT']}.pt"
if rank == 0:
    torch.save(net.state_dict(), path)
dist.barrier(device_ids=[rank])
net.load_state_dict(torch.load(path))  # BUG: shared-checkpoint
# FIX: net.load_state_dict(torch.load(path, map_location=f"cuda:{rank}"))
dist.barrier(device_ids=[rank])
if rank == 0:
    os.remove(path)
dist.destroy_process_group()
