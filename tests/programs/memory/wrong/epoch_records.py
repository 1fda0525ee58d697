"""A regression that keeps a record of each epoch: the norm of its gradients, and its loss with all that is behind it."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
record = {"norm": [], "loss": []}
for step in range(12):
    x = torch.randn(128, 64, device="cuda")
    loss = (net(x) - x).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    record["norm"].append(nn.utils.clip_grad_norm_(net.parameters(), 1.0))
    record["loss"].append(loss)  # BUG: memory-grows culprit=record
    # FIX: record["loss"].append(loss.detach())
    optimizer.step()
print(f"{sum(record['loss']).item():.4f}", len(record["norm"]))
