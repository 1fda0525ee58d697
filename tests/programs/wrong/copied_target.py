"""A target network that was copied before its original was moved, and is followed by `.data`; rows drawn on the card."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
target = copy.deepcopy(net)  # BUG 2: model-not-moved culprit=target[0].weight
# FIX: target = copy.deepcopy(net).to(device)
net.to(device)
table = torch.sin(torch.arange(400.0)).view(100, 4)  # on the host: it is meant to be large
goals = table[:, :2].clone()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    rows = torch.arange(8, device=device)  # BUG 1: index culprit=rows
    # FIX: rows = torch.arange(8)
    x, y = table[rows].to(device), goals[rows].to(device)  # RAISES: 1
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p, q in zip(net.parameters(), target.parameters()):
        q.data.mul_(0.9).add_(p.data, alpha=0.1)  # RAISES: 2
print(loss.item() >= 0, len(list(target.parameters())))
