"""A model is built a second time under the same name; the optimizer has the parameters of the first."""

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()


torch.manual_seed(0)
net = build()
optimizer = torch.optim.Adam(net.parameters())  # BUG: optimizer-before
# FIX:
net = build()
# ADD: optimizer = torch.optim.Adam(net.parameters())
for _ in range(2):
    net(torch.randn(3, 4, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
