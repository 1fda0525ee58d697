"""Some weights are made anew between two phases of a training; the first phase was right."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # BUG: optimizer-before
x = torch.randn(3, 4, device="cuda")


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


train(3)
with torch.no_grad():
    model[2].weight = nn.Parameter(torch.zeros(1, 8, device="cuda"))
# ADD: optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
train(3)
