"""Schedules as plugins: noise levels are kept on the host, looked up by numbers, expanded on the card."""
import abc
import argparse
from functools import cached_property

import torch
from torch import nn


class Schedule(abc.ABC):
    registry: dict[str, type] = {}

    def __init_subclass__(cls, name, **kwargs):
        super().__init_subclass__(**kwargs)
        Schedule.registry[name] = cls

    def __init__(self, steps):
        self.steps = steps

    @abc.abstractmethod
    def betas(self) -> torch.Tensor: ...

    @cached_property
    def alpha_bar(self):
        return (1 - self.betas()).cumprod(0)

    def at(self, t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The level of each t, ready to be multiplied."""
        return self.alpha_bar[t.cpu()].to(like).view(-1, *[1] * (like.dim() - 1))


class Linear(Schedule, name="linear"):
    def betas(self):
        return torch.linspace(1e-3, 0.2, self.steps)


class Cosine(Schedule, name="cosine"):
    def betas(self):
        t = torch.linspace(0, 1, self.steps + 1)
        f = torch.cos((t + 0.01) / 1.01 * torch.pi / 2) ** 2
        return (1 - f[1:] / f[:-1]).clamp(max=0.95)


class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, 16), nn.SiLU(), nn.Linear(16, dim))

    def forward(self, x, level):
        return self.net(torch.cat([x, level.expand(len(x), 1)], 1))


def noise(n, dim, step):
    return torch.sin(torch.arange(n * dim * 1.0) * (step + 1.7)).view(n, dim)


def train(model, schedule, data, device, epochs):
    opt = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(epochs):
        x = data.to(device)
        t = (torch.arange(len(x), device=device) * 3 + epoch) % schedule.steps
        level = schedule.at(t, x)
        e = noise(*x.shape, epoch).to(device)
        out = model(level.sqrt() * x + (1 - level).sqrt() * e, level)
        loss = (out - e).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def sample(model, schedule, n, device):
    x = noise(n, 2, 99).to(device)
    for t in reversed(range(schedule.steps)):
        bar = schedule.alpha_bar[t]  # one number, of the host
        before = schedule.alpha_bar[t - 1] if t else torch.ones(())
        e = model(x, bar.reshape(1, 1).to(device))
        x0 = (x - (1 - bar).sqrt() * e) / bar.sqrt()
        x = before.sqrt() * x0.clamp(-2, 2) + (1 - before).sqrt() * e
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    angle = torch.linspace(0, 6.28, 24)
    data = torch.stack([angle.cos(), angle.sin()], 1)
    for name, cls in Schedule.registry.items():
        torch.manual_seed(1)
        model, schedule = Denoiser(2).to(args.device), cls(args.steps)
        loss = train(model, schedule, data, args.device, 6)
        out = sample(model, schedule, 5, args.device)
        print(f"{name:7} {loss:.4f} {out.norm(dim=1).mean().item():.4f} {schedule.alpha_bar[-1].item():.4f}")


main()
