"""Callback-driven loop: early stopping with the best weights, per-class accuracy, an LR range logger."""
from __future__ import annotations
import torch
from torch import nn


class Callback:
    def on_epoch_end(self, loop, metrics: dict) -> None: ...
    def on_fit_end(self, loop) -> None: ...


class BestWeights(Callback):
    def __init__(self, patience: int):
        self.best, self.patience, self.bad = float("inf"), patience, 0
        self.kept: dict[str, torch.Tensor] = {}

    def on_epoch_end(self, loop, metrics):
        if metrics["val"] < self.best:
            self.best, self.bad = metrics["val"], 0
            self.kept = {k: v.detach().cpu().clone() for k, v in loop.model.state_dict().items()}  # ALSO: 1
        else:
            self.bad += 1
            loop.stop = self.bad > self.patience

    def on_fit_end(self, loop):
        # how far the last weights have drifted from the best ones
        now = loop.model.state_dict()
        self.drift = sum((now[k] - v).norm().item() for k, v in self.kept.items())  # BUG: any culprit=v # RAISES: 1
        # FIX: self.drift = sum((now[k].cpu() - v).norm().item() for k, v in self.kept.items())
        loop.model.load_state_dict(self.kept)


class ClassAccuracy(Callback):
    def __init__(self, classes: int):
        self.classes = classes
        self.rows: list[torch.Tensor] = []

    def on_epoch_end(self, loop, metrics):
        x, y = loop.val
        pred = loop.model(x).argmax(1)
        hit = torch.zeros(self.classes).scatter_add(0, y, (pred == y).float())  # BUG: any culprit=torch.zeros(self.classes) # RAISES: 2
        # FIX: hit = torch.zeros(self.classes, device=y.device).scatter_add(0, y, (pred == y).float())
        self.rows.append(hit / torch.bincount(y, minlength=self.classes).clamp(min=1))


class Loop:
    def __init__(self, model, train, val, callbacks, device):
        self.model = model.to(device)
        self.train = [t.to(device) for t in train]
        self.val = val  # BUG: any culprit=val
        # FIX: self.val = [t.to(device) for t in val]
        self.callbacks = callbacks
        self.stop = False
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.05)

    def run(self, epochs: int) -> None:
        for _ in range(epochs):
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.model(self.train[0]), self.train[1]).backward()
            self.opt.step()
            with torch.no_grad():
                val = nn.functional.cross_entropy(self.model(self.val[0]), self.val[1]).item()  # RAISES: 3
                for cb in self.callbacks:
                    cb.on_epoch_end(self, {"val": val})
            if self.stop:
                break
        for cb in self.callbacks:
            cb.on_fit_end(self)


def split(n: int):
    x = torch.sin(torch.arange(n * 3.0)).view(n, 3)
    y = (x[:, 0] > 0).long() + (x[:, 2] > 0).long()
    return (x[: n // 2], y[: n // 2]), (x[n // 2 :], y[n // 2 :])


torch.manual_seed(4)
train, val = split(40)
best, acc = BestWeights(patience=3), ClassAccuracy(3)
loop = Loop(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)), train, val, [best, acc],
            torch.device("cuda" if torch.cuda.is_available() else "cpu"))
loop.run(12)
print("%.4f %.4f" % (best.best, best.drift), ["%.2f" % v for v in acc.rows[-1].tolist()])
