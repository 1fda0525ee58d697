import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
model = DistributedDataParallel(net, device_ids=[rank])
output = model(torch.randn(8, 4, device="cuda"))
output.pow(2).mean().backward(retain_graph=True)
# FIX: (output.pow(2).mean() + output.abs().mean()).backward()
output.abs().mean().backward()  # BUG: ready-twice
# FIX:
dist.destroy_process_group()
