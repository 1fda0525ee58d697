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
        self.body = nn.Linear(4, 8)
        self.one = nn.Linear(8, 2)
        self.two = nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.one(hidden), self.two(hidden)


model = DistributedDataParallel(Net().cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    first, second = model(torch.randn(8, 4, device="cuda"))
    loss = first.pow(2).mean()
    # FIX: loss = first.pow(2).mean() + second.abs().mean()
    optimizer.zero_grad()
    loss.backward()  # BUG: unfinished-reduction
    optimizer.step()
dist.destroy_process_group()
