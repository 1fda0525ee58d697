# finds: nothing
"""Ranks with different numbers of batches, joined; a model that is brought to the CPU at the end, to be saved."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with model.join():
    for _ in range(2 + rank):
        model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
state = model.cpu().module.state_dict()
assert state["weight"].device.type == "cpu"
dist.destroy_process_group()
