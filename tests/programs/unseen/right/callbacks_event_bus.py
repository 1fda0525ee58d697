"""An event bus: listeners on the host hear of tensors on the card and take what they need."""
from __future__ import annotations

import collections
import weakref
from typing import Callable

import torch
from torch import nn


class Bus:
    def __init__(self):
        self.listeners: dict[str, list[Callable]] = collections.defaultdict(list)

    def on(self, event):
        def add(function):
            self.listeners[event].append(function)
            return function

        return add

    def emit(self, event, **payload):
        for listener in self.listeners[event]:
            listener(**payload)


bus = Bus()
history: dict[str, list[float]] = collections.defaultdict(list)


@bus.on("loss")
def remember(value, **_):
    history["loss"].append(float(value))


@bus.on("gradients")
def sizes(module, **_):
    row = torch.tensor([p.grad.norm() for p in module.parameters()])  # numbers are read one by one
    history["norm"].append(row.square().sum().sqrt().item())


@bus.on("logits")
class Entropy:
    total, n = 0.0, 0

    def __init__(self, logits, **_):
        p = logits.detach().softmax(-1)
        Entropy.total += -(p * p.log()).sum(-1).mean().item()
        Entropy.n += 1


class Confidence:
    """A histogram on the host; edges never leave it."""

    def __init__(self, bins=4):
        self.edges = torch.linspace(0, 1, bins + 1)
        self.counts = torch.zeros(bins)

    def __call__(self, logits, **_):
        top = logits.detach().softmax(-1).amax(-1).cpu()
        self.counts += torch.histogram(top, self.edges).hist


class Snapshot:
    """Holds a weak reference to the model and copies of its weights on the host."""

    def __init__(self, model, every):
        self.model, self.every, self.calls, self.kept = weakref.ref(model), every, 0, []

    def __call__(self, **_):
        self.calls += 1
        if self.calls % self.every == 0:
            self.kept.append({k: v.detach().to("cpu", copy=True) for k, v in self.model().state_dict().items()})

    def distance(self):
        a, b = self.kept[0], self.kept[-1]
        return sum((a[k] - b[k]).norm() for k in a).item()


torch.manual_seed(33)
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.sin(torch.arange(120.0) * 0.6).view(24, 5)
y = x.argmax(1) % 3
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
confidence, snapshot = Confidence(), Snapshot(net, 2)
bus.listeners["logits"].append(confidence)
bus.listeners["step"].append(snapshot)
opt = torch.optim.Adam(net.parameters(), 0.02)
for epoch in range(6):
    xb, yb = x.to(device), y.to(device)
    logits = net(xb)
    bus.emit("logits", logits=logits)
    loss = nn.functional.cross_entropy(logits, yb)
    opt.zero_grad()
    loss.backward()
    bus.emit("loss", value=loss)
    bus.emit("gradients", module=net)
    opt.step()
    bus.emit("step")
print([round(v, 4) for v in history["loss"]])
print([round(v, 3) for v in history["norm"]])
print(f"entropy {Entropy.total / Entropy.n:.3f} distance {snapshot.distance():.3f}", confidence.counts.sum().item())
