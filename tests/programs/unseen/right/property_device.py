"""A module that knows its device by a dummy buffer."""
from __future__ import annotations
import torch
from torch import Tensor, nn


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_probe", torch.empty(0), persistent=False)

    @property
    def device(self) -> torch.device:
        return self._probe.device

    def tensor(self, *a, **k) -> Tensor:
        return torch.tensor(*a, device=self.device, **k)


class Clip(Base):
    def __init__(self, lo: float, hi: float) -> None:
        super().__init__()
        self.lo, self.hi = lo, hi

    def forward(self, x: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x, self.tensor(self.lo)), self.tensor(self.hi))


class Bins(Base):
    def __init__(self, edges: list[float]) -> None:
        super().__init__()
        self.edges = edges

    def forward(self, x: Tensor) -> Tensor:
        slot = torch.bucketize(x.to(self.device), self.tensor(self.edges))
        return torch.bincount(slot.flatten(), minlength=len(self.edges) + 1)


x = torch.linspace(-2, 2, 12)
for where in ("cpu", "cuda:0", "cuda:1"):
    clip, bins = Clip(-1, 1).to(where), Bins([-0.5, 0.0, 0.5]).to(where)
    y = clip(x.to(clip.device))
    print(clip.device, "%.4f" % y.abs().sum().item(), bins(y).tolist())
