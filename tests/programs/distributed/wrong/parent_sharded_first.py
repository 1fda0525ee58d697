import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).cuda()
fully_shard(model)
# FIX:
for layer in model:
    fully_shard(layer)  # BUG: sharding
# ADD: fully_shard(model)
model(torch.randn(2, 4, device="cuda")).sum().backward()
dist.destroy_process_group()
