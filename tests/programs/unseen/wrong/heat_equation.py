"""Physics informed network for u_t = a u_xx on [0, 1], u(x, 0) = sin(pi x)."""
import argparse
import math

import torch
import torch.nn as nn


class FourierMLP(nn.Module):
    def __init__(self, n_freq=4, width=24):
        super().__init__()
        self.freqs = math.pi * torch.arange(1, n_freq + 1).float()  # BUG: any culprit=self.freqs
        # FIX: self.register_buffer("freqs", math.pi * torch.arange(1, n_freq + 1).float())
        self.body = nn.Sequential(nn.Linear(2 * n_freq + 1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.out = nn.Linear(width, 1)

    def forward(self, x, t):
        ang = x * self.freqs  # RAISES: 1
        return self.out(self.body(torch.cat([ang.sin(), ang.cos(), t], dim=1)))


def grad(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(net, x, t, alpha):
    x.requires_grad_()
    t.requires_grad_()
    u = net(x, t)
    return grad(u, t) - alpha * grad(grad(u, x), x)


class Sampler:
    def __init__(self, n, device, seed):
        self.n, self.device = n, device
        self.gen = torch.Generator().manual_seed(seed)

    def interior(self):
        xt = torch.rand(self.n, 2, generator=self.gen).to(self.device)
        return xt[:, :1].clone(), xt[:, 1:].clone()

    def boundary(self):
        t = torch.rand(self.n, 1, generator=self.gen)
        side = (torch.arange(self.n) % 2).float().unsqueeze(1)  # BUG: any culprit=side
        # FIX: side = (torch.arange(self.n, device=self.device) % 2).float().unsqueeze(1)
        return side, t.to(self.device)  # ALSO: 2

    def initial(self):
        x = torch.rand(self.n, 1, generator=self.gen).to(self.device)
        return x, torch.zeros_like(x)


class Balancer:
    """Keeps running scales of the loss terms so that none of them takes over."""

    def __init__(self, n_terms, decay=0.8):
        self.decay = decay
        self.scale = torch.ones(n_terms)  # BUG: any culprit=self.scale
        # FIX: self.scale = None

    def __call__(self, terms):
        terms = torch.stack(terms)
        # ADD 3: if self.scale is None:
        # ADD 3:     self.scale = torch.ones_like(terms)
        now = terms.detach()
        self.scale = self.decay * self.scale + (1 - self.decay) * now  # RAISES: 3
        return (terms / (self.scale + 1e-3)).sum(), terms


def exact(x, t, alpha):
    return torch.exp(-alpha * math.pi ** 2 * t) * torch.sin(math.pi * x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--steps", type=int, default=25)
    ap.add_argument("--alpha", type=float, default=0.1)
    args = ap.parse_args([])
    torch.manual_seed(5)
    net = FourierMLP().to(args.device)
    sampler, balance = Sampler(48, args.device, 9), Balancer(3)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for step in range(args.steps):
        pde = residual(net, *sampler.interior(), args.alpha).square().mean()
        xb, tb = sampler.boundary()
        wall = torch.cat([xb, tb], 1)  # RAISES: 2
        bc = net(wall[:, :1], wall[:, 1:]).square().mean()
        x0, t0 = sampler.initial()
        ic = (net(x0, t0) - exact(x0, t0, args.alpha)).square().mean()
        loss, terms = balance([pde, bc, ic])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("terms", [round(v, 4) for v in terms.tolist()])
    with torch.no_grad():
        line = torch.linspace(0, 1, 21).unsqueeze(1)
        half = torch.full_like(line, 0.5)
        u = net(line.to(args.device), half.to(args.device))
        err = (u - exact(line, half, args.alpha)).norm()  # BUG: any culprit=line  # RAISES: 4
        # FIX: err = (u.cpu() - exact(line, half, args.alpha)).norm()
    print(f"error at t=0.5: {err.item():.4f}")


if __name__ == "__main__":
    main()
