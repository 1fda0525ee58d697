"""DDPM on 2-d spiral points, ancestral sampling at the end."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    steps: int = 40
    hidden: int = 48
    batch: int = 128
    iters: int = 60
    device: str = "cuda"


class NoiseSchedule:
    def __init__(self, steps, device):
        self.beta = torch.linspace(1e-4, 0.12, steps)  # BUG: any culprit=self.beta
        # FIX: self.beta = torch.linspace(1e-4, 0.12, steps, device=device)
        self.alpha = 1.0 - self.beta
        self.alpha_bar = torch.cumprod(self.alpha, dim=0)
        self.steps = steps

    def diffuse(self, x0, t, eps):
        ab = self.alpha_bar[t].unsqueeze(-1)  # RAISES: 1
        return ab.sqrt() * x0 + (1 - ab).sqrt() * eps  # RAISES: 3


class Denoiser(nn.Module):
    def __init__(self, hidden, steps):
        super().__init__()
        self.time = nn.Embedding(steps, hidden)
        self.inp = nn.Linear(2, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        h = torch.relu(self.inp(x) + self.time(t))  # RAISES: 2
        h = torch.relu(self.mid(h)) + h
        return self.out(h)


def spiral(n, device):
    theta = torch.sqrt(torch.rand(n, device=device)) * 9.0
    r = theta / 9.0
    return torch.stack([r * theta.cos(), r * theta.sin()], dim=1)


@torch.no_grad()
def sample(model, sched, n, device):
    x = torch.randn(n, 2, device=device)
    for step in reversed(range(sched.steps)):
        t = torch.full((n,), step)  # BUG: any culprit=t
        # FIX: t = torch.full((n,), step, device=device)
        eps = model(x, t)
        coef = sched.beta[step] / (1 - sched.alpha_bar[step]).sqrt()
        x = (x - coef * eps) / sched.alpha[step].sqrt()
        if step > 0:
            x = x + sched.beta[step].sqrt() * torch.randn_like(x)
    return x


def main(cfg=Config()):
    torch.manual_seed(0)
    sched = NoiseSchedule(cfg.steps, cfg.device)
    model = Denoiser(cfg.hidden, cfg.steps).to(cfg.device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(cfg.iters):
        x0 = spiral(cfg.batch, cfg.device)
        t = torch.randint(cfg.steps, (cfg.batch,), device=cfg.device)
        eps = torch.randn(cfg.batch, 2)  # BUG: any culprit=eps
        # FIX: eps = torch.randn(cfg.batch, 2, device=cfg.device)
        loss = (model(sched.diffuse(x0, t, eps), t) - eps).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print(f"iter {i} mse {loss.item():.4f}")
    pts = sample(model, sched, 64, cfg.device)
    print("spread", round(pts.std().item(), 4), "mean", [round(v, 4) for v in pts.mean(0).tolist()])


if __name__ == "__main__":
    main()
