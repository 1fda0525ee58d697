"""A model that is made without memory and filled on the device; the optimizer has what was there before."""

import torch
from torch import nn

torch.manual_seed(0)
with torch.device("meta"):
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # BUG: optimizer-before
# FIX:
net.to_empty(device="cuda")
# ADD: optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for part in net.modules():
    if isinstance(part, nn.Linear):
        nn.init.ones_(part.weight)
        nn.init.zeros_(part.bias)
x = torch.arange(12.0, device="cuda").reshape(3, 4)
for _ in range(2):
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
