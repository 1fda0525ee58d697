"""Wavelet-gated sequence model full of plain attributes and caches that do follow the device."""
from functools import lru_cache

import torch
import torch.nn as nn


@lru_cache(maxsize=8)
def haar(n, device, dtype):
    """Orthonormal Haar matrix, cached per device."""
    m = torch.ones(1, 1, device=device, dtype=dtype)
    while m.shape[0] < n:
        top = torch.kron(m, torch.tensor([[1.0, 1.0]], device=device, dtype=dtype))
        low = torch.kron(torch.eye(len(m), device=device, dtype=dtype), m.new_tensor([[1.0, -1.0]]))
        m = torch.cat([top, low])
    return m / m.norm(dim=1, keepdim=True)


class Positions(nn.Module):
    """A plain attribute that is re-made whenever the input's device differs."""

    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.table = torch.zeros(0, dim)

    def forward(self, x):
        if self.table.device != x.device or len(self.table) < x.shape[1]:
            steps = torch.arange(x.shape[1], device=x.device)[:, None]
            rate = torch.logspace(0, -2, x.shape[2], device=x.device)
            self.table = torch.sin(steps * rate)
        return x + self.scale * self.table[: x.shape[1]]


class Gate(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        self.length = length
        self.mix = nn.Linear(dim, dim)
        self.levels = torch.tensor([0] + [i for i in range(3) for _ in range(2 ** i)])
        self.damp = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = haar(self.length, x.device, x.dtype)
        coef = h @ self.mix(x)
        coef = coef * self.damp[self.levels].sigmoid()[:, None]
        return h.T @ coef


class Model(nn.Module):
    def __init__(self, dim, length, depth):
        super().__init__()
        self.pos = Positions(dim)
        gates = [Gate(dim, length) for _ in range(depth)]
        self.order = []
        for i, gate in enumerate(gates):
            self.add_module(f"gate_{i}", gate)
            self.order.append(gate)
        self.heads = {"level": nn.Linear(dim, 1), "slope": nn.Linear(dim, 1)}
        for name, head in self.heads.items():
            setattr(self, f"head_{name}", head)

    def forward(self, x):
        x = self.pos(x)
        for gate in self.order:
            x = x + torch.tanh(gate(x))
        pooled = x.mean(1)
        return {name: head(pooled).squeeze(1) for name, head in self.heads.items()}


def data(n, length, dim, device):
    level, slope = torch.randn(n, device=device), torch.randn(n, device=device)
    t = torch.linspace(-1, 1, length, dtype=level.dtype).to(level)
    line = level[:, None] + slope[:, None] * t
    return line.unsqueeze(2) + 0.2 * level.new_empty(n, length, dim).normal_(), {"level": level, "slope": slope}


def main():
    torch.manual_seed(73)
    model = Model(6, 8, 2)
    model(torch.zeros(1, 8, 6))
    device = torch.device("cuda")
    model.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = data(96, 8, 6, device)
    for it in range(30):
        out = model(x)
        losses = {k: nn.functional.mse_loss(out[k], y[k]) for k in out}
        loss = sum(losses.values())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 9:
            print(it + 1, {k: round(v.item(), 4) for k, v in losses.items()})


main()
