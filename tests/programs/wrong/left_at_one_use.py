"""Values that stay on the host and are moved where they are used, but for one use; a sum of two that were made there."""

import torch
from torch import nn

device = torch.device("cuda")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)


def accuracy(model, x, y):
    where = next(model.parameters()).device
    return (model(x.to(where)).argmax(1) == y).float().mean().item()  # BUG 2: default-device culprit=y # RAISES: 2
    # FIX: return (model(x.to(where)).argmax(1) == y.to(where)).float().mean().item()


def loss_of(out, y):
    return nn.functional.cross_entropy(out, y)  # RAISES: 1


x = torch.sin(torch.arange(32.0)).view(8, 4)
y = (x.sum(1) > 0).long()
low = torch.full((8, 1), -0.5)
high = torch.linspace(0.5, 1, 8)[:, None]
span = high - low  # BUG 3: default-device culprit=span
# FIX: span = (high - low).to(device)
for step in range(3):
    loss = loss_of(net(x.to(device)), y.to(device))
print(loss_of(net(x.to(device)), y).item() > 0)  # BUG 1: default-device culprit=y
# FIX: print(loss_of(net(x.to(device)), y.to(device)).item() > 0)
print(accuracy(net, x, y) >= 0)
print((net(x.to(device)) * span).shape)  # RAISES: 3
