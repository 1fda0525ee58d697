import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

net = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # BUG: optimizer-before
# FIX:
model = DistributedDataParallel(copy.deepcopy(net), device_ids=[rank])
# ADD: optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
