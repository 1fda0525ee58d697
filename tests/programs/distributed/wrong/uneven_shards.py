import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def train_step(model, optimizer, x):
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()  # BUG: rank-missing
    optimizer.step()


def main():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(5, 4))
    loader = DataLoader(Subset(data, range(rank, 5, 2)))
    # FIX: loader = DataLoader(data, sampler=DistributedSampler(data))
    model = DistributedDataParallel(nn.Linear(4, 2).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        train_step(model, optimizer, x)
    assert DistributedSampler


main()
