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
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.first(x)
        if hidden.abs().max() > 100:  # BUG: unfinished-reduction
            return hidden
        return self.second(torch.relu(hidden))


model = DistributedDataParallel(Net().cuda(), device_ids=[rank])
# FIX: model = DistributedDataParallel(Net().cuda(), device_ids=[rank], find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(2):
    x = torch.ones(8, 4, device="cuda") * (1 if rank == 0 else 1e6)
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
dist.destroy_process_group()
