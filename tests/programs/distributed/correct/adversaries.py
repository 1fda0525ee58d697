# finds: nothing
"""Two models, several passes forward for one backward, outputs that get their gradients one after the other."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.one(x), self.two(x)


maker = DistributedDataParallel(nn.Linear(2, 4).cuda(), device_ids=[rank])
judge = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda(), device_ids=[rank])
heads = DistributedDataParallel(TwoHeads().cuda(), device_ids=[rank])
frozen = nn.Linear(4, 4).cuda().requires_grad_(False)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (maker, judge, heads)]
for step in range(3):
    real, noise = torch.randn(8, 4, device="cuda"), torch.randn(8, 2, device="cuda")
    fake = maker(noise)
    (judge(frozen(real)).mean() - judge(fake.detach()).mean()).backward()
    optimizers[1].step()
    optimizers[1].zero_grad()
    judge(fake).mean().backward()
    optimizers[0].step()
    for optimizer in optimizers:
        optimizer.zero_grad()
    first, second = heads(real)
    first.pow(2).mean().backward()
    second.pow(2).mean().backward()
    optimizers[2].step()
    heads.zero_grad()
dist.destroy_process_group()
