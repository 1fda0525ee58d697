import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x, expert):
        if expert == 0:  # BUG: unfinished-reduction
            hidden = self.left(x)
        else:
            hidden = self.right(x)
        return self.head(hidden)


model = DistributedDataParallel(Experts().cuda(), device_ids=[rank])
# FIX: model = DistributedDataParallel(Experts().cuda(), device_ids=[rank], find_unused_parameters=True)
for _ in range(2):
    model(torch.ones(2, 4, device="cuda"), rank).sum().backward()
dist.destroy_process_group()
