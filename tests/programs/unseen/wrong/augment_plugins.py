"""Plugin augmentations (affine warp, mixing, erasing) around a small CNN."""
from __future__ import annotations

import abc
import math
from typing import Callable, Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F


class Augment(abc.ABC):
    registry: dict[str, type[Augment]] = {}

    def __init_subclass__(cls, *, key: str, **kw):
        super().__init_subclass__(**kw)
        Augment.registry[key] = cls

    @abc.abstractmethod
    def __call__(self, x, y):
        """Return a changed batch of images and soft labels."""


class Warp(Augment, key="warp"):
    def __init__(self, degrees=20.0):
        self.limit = math.radians(degrees)

    def __call__(self, x, y):
        a = (torch.rand(len(x)) * 2 - 1) * self.limit  # BUG: any culprit=a
        # FIX: a = (torch.rand(len(x), device=x.device) * 2 - 1) * self.limit
        zero = torch.zeros_like(a)
        theta = torch.stack([a.cos(), -a.sin(), zero, a.sin(), a.cos(), zero], 1).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False), y  # RAISES: 1


class Mix(Augment, key="mix"):
    def __init__(self, alpha=0.4):
        self.beta = torch.distributions.Beta(alpha, alpha)

    def __call__(self, x, y):
        lam = self.beta.sample((len(x),))  # BUG: any culprit=lam
        # FIX: lam = self.beta.sample((len(x),)).to(x.device)
        other = torch.randperm(len(x))
        blend = lambda t: torch.einsum("b,b...->b...", lam, t) + torch.einsum("b,b...->b...", 1 - lam, t[other])  # RAISES: 2
        return blend(x), blend(y)


class Erase(Augment, key="erase"):
    def __init__(self, side=4):
        self.side = side

    def __call__(self, x, y):
        x = x.clone()
        for img in x:
            r, c = torch.randint(0, x.shape[-1] - self.side, (2,)).tolist()
            img[:, r:r + self.side, c:c + self.side] = torch.rand(self.side, self.side)
        return x, y


def pipeline(spec: list[tuple[str, dict]]) -> Callable:
    stages = [Augment.registry[key](**kw) for key, kw in spec]

    def run(x, y):
        for stage in stages:
            x, y = stage(x, y)
        return x, y

    return run


def shapes(count: int, batch: int, device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    axis = torch.linspace(-1, 1, 16, device=device)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    stencils = torch.stack([(xx.abs() < 0.3), (yy.abs() < 0.3), (xx ** 2 + yy ** 2 < 0.4)]).float()
    for _ in range(count):
        kind = torch.randint(3, (batch,), device=device)
        yield stencils[kind].unsqueeze(1) + 0.2 * torch.randn(batch, 1, 16, 16, device=device), kind


def main():
    torch.manual_seed(61)
    device = torch.device("cuda")
    net = nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 12, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)).to(device)
    augment = pipeline([("warp", {"degrees": 12.0}), ("erase", {"side": 4}), ("mix", {})])
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    smoothing = torch.full((3,), 0.05 / 3)  # BUG: any culprit=smoothing
    # FIX: smoothing = torch.full((3,), 0.05 / 3, device=device)
    for it, (x, kind) in enumerate(shapes(20, 24, device)):
        y = F.one_hot(kind, 3).float() * 0.95 + smoothing  # RAISES: 3
        xa, ya = augment(x, y)
        loss = F.cross_entropy(net(xa), ya)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 4:
            with torch.no_grad():
                acc = (net(x).argmax(1) == kind).float().mean().item()
            print(it + 1, f"{loss.item():.4f} {acc:.3f}")


main()
