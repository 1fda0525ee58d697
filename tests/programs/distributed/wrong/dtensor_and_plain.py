import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

mesh = init_device_mesh("cuda", (2,))
weight = distribute_tensor(torch.ones(4, 4, device="cuda"), mesh, [Shard(0)])
scale = torch.ones(4, device="cuda")
# ADD: scale = distribute_tensor(scale, mesh, [Replicate()])


def forward(x):
    return x * scale  # BUG: sharding


print(forward(weight).to_local().sum().item(), Replicate())
dist.destroy_process_group()
