# finds: nothing
"""fully_shard, DTensor and tensor parallelism."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)


def make():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()


model = make()
fully_shard(model[0])
fully_shard(model[2])
fully_shard(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    loss = model(torch.randn(8, 4, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
rows = distribute_tensor(torch.arange(8.0, device="cuda").reshape(4, 2), mesh, [Shard(0)])
assert (rows @ rows.T).full_tensor().sum().item() == 400
assert rows.redistribute(mesh, [Replicate()]).to_local().shape == (4, 2)
split = parallelize_module(make(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
split(torch.ones(3, 4, device="cuda")).sum().backward()
dist.destroy_process_group()
