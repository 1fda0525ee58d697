"""Attention split by a plan, and experts of each rank's own beside it, whose results the module adds up by hand."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Experts(nn.Module):
    def __init__(self, width, count, group):
        super().__init__()
        self.group = group
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        mine = sum(expert(x).relu() for expert in self.experts)
        return x + SumOverRanks.apply(mine, self.group)


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("tp",))
torch.manual_seed(0)
mix = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).cuda()
torch.manual_seed(1 + rank)  # experts are each rank's own
model = nn.Sequential(mix, Experts(8, 2, mesh.get_group())).cuda()
parallelize_module(model, mesh, {"0.0": ColwiseParallel(), "0.2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
torch.manual_seed(5)
for _ in range(3):
    model(torch.randn(4, 8, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("done", flush=True)
dist.destroy_process_group()
