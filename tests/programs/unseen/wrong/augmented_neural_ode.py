"""Augmented neural ODE, fixed-step solvers picked from a registry."""
from abc import ABC, abstractmethod

import torch
from torch import nn

SOLVERS = {}


def solver(name):
    def deco(cls):
        SOLVERS[name] = cls
        return cls
    return deco


class Solver(ABC):
    def __init__(self, t0, t1, steps, device):
        self.grid = torch.linspace(t0, t1, steps + 1)  # ALSO: 2
        self.weights = torch.full((steps,), 1.0 / steps)  # BUG: any culprit=self.weights
        # FIX: self.weights = torch.full((steps,), 1.0 / steps, device=device)

    @abstractmethod
    def step(self, f, t, dt, y):
        ...

    def integrate(self, f, y):
        speeds = []
        for t, nxt in zip(self.grid[:-1], self.grid[1:]):
            new = self.step(f, t, nxt - t, y)
            speeds.append(((new - y) / (nxt - t)).pow(2).mean())
            y = new
        return y, torch.stack(speeds) @ self.weights  # RAISES: 1


@solver("euler")
class Euler(Solver):
    def step(self, f, t, dt, y):
        return y + dt * f(t, y)


@solver("midpoint")
class Midpoint(Solver):
    def step(self, f, t, dt, y):
        half = y + 0.5 * dt * f(t, y)
        return y + dt * f(t + 0.5 * dt, half)


class Field(nn.Module):
    def __init__(self, dim, hidden=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, hidden), nn.Tanh(), nn.Linear(hidden, dim))

    def forward(self, t, y):
        clock = t.expand(len(y), 1)  # BUG: any culprit=clock
        # FIX: clock = t.to(y.device).expand(len(y), 1)
        return self.net(torch.cat([y, clock], dim=1))  # RAISES: 2


class OdeClassifier(nn.Module):
    def __init__(self, dim, extra, solver):
        super().__init__()
        self.extra = extra
        self.field = Field(dim + extra)
        self.solver = solver
        self.head = nn.Linear(dim + extra, 1)

    def forward(self, x):
        pad = torch.zeros(len(x), self.extra)  # BUG: any culprit=pad
        # FIX: pad = x.new_zeros(len(x), self.extra)
        y, energy = self.solver.integrate(self.field, torch.cat([x, pad], dim=1))  # RAISES: 3
        return self.head(y).squeeze(1), energy


def annuli(n, seed):
    g = torch.Generator().manual_seed(seed)
    inner = torch.arange(n) % 2 == 0
    r = torch.where(inner, 0.4, 1.2) + 0.1 * torch.randn(n, generator=g)
    a = 6.2832 * torch.rand(n, generator=g)
    return torch.stack([r * a.cos(), r * a.sin()], 1), inner.float()


def run(name, device):
    torch.manual_seed(6)
    x, y = (t.to(device) for t in annuli(128, seed=3))
    model = OdeClassifier(2, 2, SOLVERS[name](0.0, 1.0, 6, device)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    for it in range(20):
        logit, energy = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, y) + 0.01 * energy
        opt.zero_grad()
        loss.backward()
        opt.step()
    acc = ((logit > 0) == (y > 0.5)).float().mean().item()
    print(f"{name}: loss {loss.item():.4f} acc {acc:.3f} energy {energy.item():.4f}")


for name in SOLVERS:
    run(name, torch.device("cuda"))
