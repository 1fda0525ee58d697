# finds: nothing
"""Parameters that are sharded and live on the host: FSDP's CPU offload, old and new, with the copies it overlaps."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import CPUOffload, CPUOffloadPolicy, FullyShardedDataParallel, fully_shard

dist.init_process_group("cpu:gloo,cuda:nccl")
rank = int(os.environ["RANK"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)), nn.Linear(16, 1))


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        inputs = torch.full((4, 16), float(step + rank + 1)).pin_memory().to(device, non_blocking=True)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
        losses.append(round(loss.item(), 4))
    return losses


model = make_model()
for layer in model:
    fully_shard(layer, offload_policy=CPUOffloadPolicy(pin_memory=True))
fully_shard(model, offload_policy=CPUOffloadPolicy(pin_memory=True))
new = train(model)
assert all(p.device.type == "cpu" for p in model.parameters())

old = train(FullyShardedDataParallel(make_model(), cpu_offload=CPUOffload(offload_params=True), device_id=device))
if rank == 0:
    print("offloaded", new == old, [round(value, 2) for value in new])
dist.destroy_process_group()
