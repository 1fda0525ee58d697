import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(2)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  # BUG: optimizer-before
# FIX:
for layer in model:
    fully_shard(layer)
fully_shard(model)
# ADD: optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(2):
    model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
