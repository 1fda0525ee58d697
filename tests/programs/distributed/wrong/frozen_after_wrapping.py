import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
model = DistributedDataParallel(net, device_ids=[rank])  # BUG: unfinished-reduction
# FIX:
for parameter in net[0].parameters():
    parameter.requires_grad = False
# ADD: model = DistributedDataParallel(net, device_ids=[rank])
optimizer = torch.optim.SGD(net[2].parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(8, 4, device="cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
