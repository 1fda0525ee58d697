# finds: nothing
"""A group that nobody asked for by name: a device mesh makes it. Sharded parameters draw from one sequence."""
import os

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("data",))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).cuda()
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(2):
    model(torch.ones(4, 4, device="cuda")).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
with torch.device("meta"):
    large = nn.Linear(8, 8)
fully_shard(large, mesh=mesh)
large.to_empty(device="cuda")
nn.init.normal_(large.weight)
whole = large.weight.full_tensor()
assert not torch.equal(whole[:4], whole[4:]) and whole.std() > 0.5
torch.distributed.broadcast(whole.clone(), src=0)
torch.distributed.destroy_process_group()
