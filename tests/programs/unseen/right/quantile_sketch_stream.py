"""Quantiles of activations by a reservoir on the host; thresholds come back as numbers."""
import heapq
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Reservoir:
    size: int
    rng: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(3))
    seen: int = 0

    def __post_init__(self):
        self.values = torch.empty(0)

    def add(self, x: torch.Tensor):
        x = x.detach().flatten().cpu()
        self.seen += len(x)
        merged = torch.cat([self.values, x])
        keep = torch.randperm(len(merged), generator=self.rng)[: self.size]
        self.values = merged[keep]

    def quantile(self, q: float) -> torch.Tensor:
        return self.values.quantile(q)  # of no dimension, on the host


class Clipped(nn.Module):
    def __init__(self, reservoir, q):
        super().__init__()
        self.reservoir, self.q = reservoir, q
        self.limit = torch.tensor(float("inf"))

    def forward(self, x):
        if self.training:
            self.reservoir.add(x)
            self.limit = self.reservoir.quantile(self.q)
            return x
        return torch.where(x > self.limit, self.limit, x).clamp(max=self.limit.item())


class TopExamples:
    """The worst examples so far: a heap of numbers and rows of the host."""

    def __init__(self, k):
        self.k, self.heap = k, []

    def offer(self, losses, rows):
        for value, row in zip(losses.tolist(), rows.unbind()):
            item = (value, id(row), row)
            (heapq.heappush if len(self.heap) < self.k else heapq.heappushpop)(self.heap, item)

    def batch(self):
        return torch.stack([row for *_, row in sorted(self.heap, key=lambda i: -i[0])])


torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
clip = Clipped(Reservoir(64), 0.9)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), clip, nn.Linear(8, 1)).to(device)
x = torch.sin(torch.arange(160.0) * 0.55).view(40, 4)
y = x[:, :1] * x[:, 1:2]
top = TopExamples(3)
opt = torch.optim.Adam(net.parameters(), 0.02)
for epoch in range(3):
    for xb, yb in zip(x.split(10), y.split(10)):
        each = (net(xb.to(device)) - yb.to(device)).square().squeeze(1)
        opt.zero_grad()
        each.mean().backward()
        opt.step()
        top.offer(each.detach(), xb)
print(f"{each.mean().item():.4f}", clip.reservoir.seen, tuple(clip.reservoir.values.shape))
net.eval()
with torch.no_grad():
    worst = net(top.batch().to(device))
    print(tuple(worst.shape), f"{clip.limit.item():.3f}", bool((net[:3](x.to(device)) <= clip.limit).all()))
limits = torch.stack([clip.reservoir.quantile(q) for q in (0.25, 0.5, 0.75)])
print([round(v, 3) for v in limits.tolist()])
level = torch.bucketize(net[:2](x.to(device)).detach().cpu(), limits)
print(torch.bincount(level.flatten(), minlength=4).tolist())
for value in limits:  # one by one they are numbers
    worst = worst - value
print(f"{worst.mean().item():.3f}")
