import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.shared = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        for _ in range(2):
            x = checkpoint(self.shared, x, use_reentrant=True)  # BUG: ready-twice
            # FIX: x = checkpoint(self.shared, x, use_reentrant=False)
        return x


model = DistributedDataParallel(Net().cuda(), device_ids=[rank])
model(torch.randn(8, 4, device="cuda")).pow(2).mean().backward()
dist.destroy_process_group()
