"""Exact gaussian process regression: Cholesky, marginal likelihood, predictive intervals."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Opts:
    device: torch.device
    n: int = 40
    steps: int = 25
    lr: float = 0.05


class Kernel(nn.Module):
    """RBF plus a periodic part."""

    def __init__(self, period):
        super().__init__()
        self.raw = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("scale", "width", "wave")})
        self.period = period

    def forward(self, a, b):
        d = a.unsqueeze(1) - b.unsqueeze(0)  # RAISES: 2
        soft = {k: F.softplus(v) for k, v in self.raw.items()}
        rbf = soft["scale"] * torch.exp(-0.5 * (d / soft["width"]) ** 2)
        wave = soft["wave"] * torch.exp(-2 * torch.sin(math.pi * d / self.period) ** 2)
        return rbf + wave


class GP(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
        self.kernel = Kernel(period=2.0)
        self.log_noise = nn.Parameter(torch.tensor(-2.0))

    def factor(self):
        K = self.kernel(self.x, self.x)
        ridge = torch.eye(len(self.x)) * (self.log_noise.exp() + 1e-4)  # BUG: any culprit=ridge  # RAISES: 1
        # FIX: ridge = torch.eye(len(self.x), device=K.device) * (self.log_noise.exp() + 1e-4)
        L = torch.linalg.cholesky(K + ridge)
        return L, torch.cholesky_solve(self.y.unsqueeze(1), L)

    def nll(self):
        L, alpha = self.factor()
        fit = 0.5 * (self.y.unsqueeze(0) @ alpha).squeeze()
        return fit + L.diagonal().log().sum() + 0.5 * len(self.y) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, t):
        L, alpha = self.factor()
        cross = self.kernel(self.x, t)
        half = torch.linalg.solve_triangular(L, cross, upper=False)
        var = self.kernel(t, t).diagonal() - half.square().sum(0) + self.log_noise.exp()
        return (cross.t() @ alpha).squeeze(1), var.clamp(min=1e-6)


def signal(x):
    return torch.sin(math.pi * x) + 0.3 * x


def coverage(mean, var, truth, z=1.96):
    inside = (truth - mean).abs() < z * var.sqrt()  # RAISES: 3
    return inside.float().mean().item()


def main():
    opts = Opts(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    torch.manual_seed(16)
    x = torch.rand(opts.n).mul(6).sort().values
    y = signal(x) + 0.1 * torch.randn(opts.n)
    centre, spread = y.mean(), y.std()
    gp = GP(x.to(opts.device), ((y - centre) / spread).to(opts.device)).to(opts.device)
    opt = torch.optim.Adam(gp.parameters(), lr=opts.lr)
    for step in range(opts.steps):
        loss = gp.nll()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 8 == 7:
            print(f"step {step + 1} nll {loss.item():.4f} noise {gp.log_noise.exp().item():.4f}")
    grid = torch.linspace(0, 6, 50)  # ALSO: 2
    mean, var = gp.predict(grid)  # BUG: any culprit=grid
    # FIX: mean, var = gp.predict(grid.to(opts.device))
    mean, var = mean * spread + centre, var * spread ** 2
    truth = signal(grid)  # BUG: any culprit=truth
    # FIX: truth = signal(grid).to(opts.device)
    print(f"coverage {coverage(mean, var, truth):.3f} width {var.sqrt().mean().item():.4f}")


main()
