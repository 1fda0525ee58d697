#!/usr/bin/env python
# RealNVP coupling flow on two moons-ish data; base distribution from torch.distributions
import math

import torch
from torch import nn
from torch.distributions import Independent, Normal

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Coupling(nn.Module):
    def __init__(self, dim, mask):
        super().__init__()
        self.mask = mask  # BUG: any culprit=self.mask
        # FIX: self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, dim), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(dim, 16), nn.Tanh(), nn.Linear(16, dim))

    def forward(self, x):
        xm = x * self.mask  # RAISES: 1 # RAISES: 3
        s = self.s(xm) * (1 - self.mask)
        t = self.t(xm) * (1 - self.mask)
        return xm + (1 - self.mask) * (x * s.exp() + t), s.sum(-1)


class Flow(nn.Module):
    def __init__(self, dim=2, layers=4):
        super().__init__()
        masks = [torch.tensor([i % 2, (i + 1) % 2], dtype=torch.float) for i in range(layers)]
        self.layers = nn.ModuleList(Coupling(dim, m) for m in masks)
        self.dim = dim

    def base(self):
        loc = torch.zeros(self.dim)  # BUG: any culprit=loc
        # FIX: loc = torch.zeros(self.dim, device=device)
        return Independent(Normal(loc, torch.ones_like(loc)), 1)

    def log_prob(self, x):
        logdet = x.new_zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        return self.base().log_prob(x) + logdet  # RAISES: 2


def moons(n):
    t = torch.linspace(0, math.pi, n // 2)
    a = torch.stack([t.cos(), t.sin()], 1)
    b = torch.stack([1 - t.cos(), 0.5 - t.sin()], 1)
    return torch.cat([a, b])


torch.manual_seed(17)
flow = Flow().to(device)
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
x = moons(64).to(device)
for it in range(20):
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

grid = torch.stack(torch.meshgrid(torch.linspace(-1, 2, 5), torch.linspace(-1, 1, 5), indexing="ij"), -1).view(-1, 2)  # ALSO: 3
with torch.no_grad():
    density = flow.log_prob(grid).exp()  # BUG: any culprit=grid
    # FIX: density = flow.log_prob(grid.to(device)).exp()
print("nll %.4f  mass %.4f" % (loss.item(), density.sum().item()))
