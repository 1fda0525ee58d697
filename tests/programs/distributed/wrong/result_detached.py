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
        self.encoder = nn.Linear(4, 4)  # BUG: unfinished-reduction
        self.decoder = nn.Linear(4, 4)

    def forward(self, x):
        return self.decoder(self.encoder(x).detach())


model = Net().cuda()
# ADD: model.encoder.requires_grad_(False)
model = DistributedDataParallel(model, device_ids=[rank])
for _ in range(2):
    model(torch.ones(2, 4, device="cuda")).sum().backward()
dist.destroy_process_group()
