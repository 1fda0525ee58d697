import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.norm(self.body(x)))


def train(model, optimizer):
    for _ in range(2):
        model(torch.randn(3, 4, device="cuda")).sum().backward()
        optimizer.step()  # BUG: sharding
        optimizer.zero_grad()


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
net = Net().cuda()
fully_shard(net.body)
# ADD: fully_shard(net)
train(net, torch.optim.AdamW(net.parameters(), lr=0.1))
dist.destroy_process_group()
