# finds: nothing
"""DistributedDataParallel as tutorials have it: sampler, buffers, gradient accumulation, checkpoint and resume."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

cpu = os.environ.get("TEST_DEVICE") == "cpu"
rank = int(os.environ["LOCAL_RANK"])
device = torch.device("cpu") if cpu else torch.device("cuda", rank)
if not cpu:
    torch.cuda.set_device(device)
dist.init_process_group("gloo" if cpu else "nccl")
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).to(device)
model = DistributedDataParallel(net, device_ids=None if cpu else [rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=6, sampler=sampler)
path = f"checkpoint-{os.environ['MASTER_PORT']}.pt"
for epoch in range(3):
    sampler.set_epoch(epoch)
    for step, (inputs, targets) in enumerate(loader):
        inputs, targets = inputs.to(device), targets.to(device)
        if step % 2 == 0:
            with model.no_sync():
                nn.functional.cross_entropy(model(inputs), targets).backward()
            continue
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch} loss {total.item() / dist.get_world_size():.6f}", flush=True)
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()
    state = torch.load(path, map_location=device)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    dist.barrier()
model.eval()
with torch.no_grad():
    for inputs, targets in loader:
        model(inputs.to(device))
if rank == 0:
    os.remove(path)
dist.destroy_process_group()
