"""Losses go to a pinned ring without waiting. The event of the step before is awaited, and the row of this step is
read."""

import torch
from torch import nn

device = torch.device("cuda")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(16, 6, device=device)
goals = inputs.sum(1, keepdim=True)

ring = torch.zeros(2, 16, pin_memory=True)
written = [torch.cuda.Event(), torch.cuda.Event()]
worst = 0.0
for step in range(6):
    errors = (model(inputs) - goals).squeeze(1).square()
    optimizer.zero_grad()
    errors.mean().backward()
    optimizer.step()
    row = step % 2
    ring[row].copy_(errors.detach(), non_blocking=True)
    written[row].record()
    if step > 0:
        written[1 - row].synchronize()  # BUG: read-too-early culprit=ring
        worst = max(worst, float(ring[row].max()))  # RAISES: none  # ALSO: 1
        # FIX: worst = max(worst, float(ring[1 - row].max()))
print("worst error is finite", worst < float("inf"))
