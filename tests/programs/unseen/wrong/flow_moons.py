"""RealNVP on two moons, with a data dependent actnorm and a held-out likelihood."""
import math

import torch
import torch.nn as nn


def two_moons(n, gen):
    t = math.pi * torch.rand(n, generator=gen)
    flip = (torch.arange(n) % 2).float()
    x = torch.cos(t) * (1 - 2 * flip) + flip
    y = torch.sin(t) * (1 - 2 * flip) + 0.5 * flip
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=gen)


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.ready = False

    def forward(self, x):
        if not self.ready:
            self.shift.data.copy_(-x.mean(0))
            self.log_scale.data.copy_(-x.std(0).log())
            self.ready = True
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum()  # RAISES: 3


class Coupling(nn.Module):
    def __init__(self, dim, hidden, parity):
        super().__init__()
        self.mask = (torch.arange(dim) % 2 == parity).float()  # BUG: any culprit=self.mask
        # FIX: self.register_buffer("mask", (torch.arange(dim) % 2 == parity).float())
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 2 * dim))

    def forward(self, x):
        kept = x * self.mask  # RAISES: 1
        free = 1 - self.mask
        s, t = self.net(kept).chunk(2, dim=1)
        s = torch.tanh(s) * free
        return kept + free * (x * s.exp() + t), s.sum(1)


class Flow(nn.Module):
    def __init__(self, dim=2, hidden=24, blocks=3):
        super().__init__()
        layers = []
        for b in range(blocks):
            layers += [ActNorm(dim), Coupling(dim, hidden, b % 2)]
        self.layers = nn.ModuleList(layers)
        self.prior = torch.distributions.Normal(torch.zeros(dim), torch.ones(dim))  # BUG: any culprit=self.prior
        # FIX: self.prior = torch.distributions.Normal(0.0, 1.0)

    def log_prob(self, x):
        total = 0.0
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return self.prior.log_prob(x).sum(1) + total  # RAISES: 2


def nll(flow, data):
    return -flow.log_prob(data).mean()


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = two_moons(256, gen).to(device)
    test = two_moons(128, gen)  # BUG: any culprit=test
    # FIX: test = two_moons(128, gen).to(device)
    flow = Flow().to(device)
    opt = torch.optim.Adam(flow.parameters(), lr=5e-3)
    for step in range(30):
        loss = nll(flow, train)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"step {step + 1} train nll {loss.item():.4f}")
    with torch.no_grad():
        print(f"test bits/dim {nll(flow, test).item() / (2 * math.log(2)):.4f}")


if __name__ == "__main__":
    main()
