import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.utils import clip_grad_norm_

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4), nn.Linear(4, 2)).cuda()
plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
# ADD: plan["3"] = ColwiseParallel(output_layouts=Replicate())
parallelize_module(model, mesh, plan)
model(torch.ones(8, 4, device="cuda")).sum().backward()
clip_grad_norm_(model.parameters(), 1.0)  # BUG: sharding
dist.destroy_process_group()
