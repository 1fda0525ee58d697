import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)

total = torch.ones(1, device="cuda")
dist.all_reduce(total)
mesh = init_device_mesh("cuda", (1, 4), mesh_dim_names=("data", "tensor"))  # BUG: sharding
# FIX: mesh = init_device_mesh("cuda", (1, dist.get_world_size()), mesh_dim_names=("data", "tensor"))
dist.destroy_process_group()
