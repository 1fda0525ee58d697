"""Asynchronous copies that are waited for before anyone reads."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(8, 4).to(device)
loader = DataLoader(TensorDataset(torch.randn(16, 8)), batch_size=4, pin_memory=True)
results = torch.empty(16, 4, pin_memory=True)
with torch.no_grad():
    for i, (x,) in enumerate(loader):
        out = model(x.to(device, non_blocking=True))
        results[4 * i : 4 * i + 4].copy_(out, non_blocking=True)
torch.cuda.synchronize()
print("sum", round(results.sum().item(), 3))

event = torch.cuda.Event()
host = (model.weight.detach() * 2).to("cpu", non_blocking=True)
event.record()
event.synchronize()
print(round(float(host[0, 0]), 4))

norm = model.weight.detach().norm().to("cpu", non_blocking=True)
torch.cuda.current_stream().synchronize()
print(round(norm.item(), 4))
