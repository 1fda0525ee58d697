import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x) * self.scale


net = Net().cuda()
# FIX: net = Net()
net.register_buffer("scale", torch.ones(2))
# ADD: net.cuda()
model = DistributedDataParallel(net, device_ids=[rank])  # BUG: scattered-module
model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
dist.destroy_process_group()
