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
        self.extra = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        if x.mean() > 0:  # BUG: unfinished-reduction
            hidden = hidden + self.extra(hidden)
        return self.head(hidden)


model = DistributedDataParallel(Net().cuda(), device_ids=[rank])
# FIX: model = DistributedDataParallel(Net().cuda(), device_ids=[rank], find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.ones(8, 4, device="cuda") * (1 if rank == 0 else -1)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
