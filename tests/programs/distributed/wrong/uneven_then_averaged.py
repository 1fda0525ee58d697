import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def train(model, optimizer, loader, device):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()  # BUG: ranks-part-ways
        optimizer.step()
        optimizer.zero_grad()
    total = loss.detach().clone()
    dist.all_reduce(total)  # ALSO: 1
    return total.item()


rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
data = TensorDataset(torch.randn(41, 8), torch.randn(41, 2))
mine = Subset(data, range(rank, 41, dist.get_world_size()))
batches = DataLoader(mine, batch_size=4)
# FIX: batches = DataLoader(mine, batch_size=4, drop_last=True)
net = DistributedDataParallel(nn.Linear(8, 2).cuda(), device_ids=[rank])
train(net, torch.optim.SGD(net.parameters(), 0.1), batches, torch.device("cuda", rank))
dist.destroy_process_group()
