import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

model = DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[0])  # BUG: device-ids
# FIX: model = DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[rank])
model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
dist.destroy_process_group()
