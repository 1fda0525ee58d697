"""Optimiser built before the move, checkpoints read to the host: all legitimate."""
import copy
import io

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, x):
        return x + self.f(x)


def build():
    return nn.Sequential(nn.Linear(5, 20), Residual(20), nn.Linear(20, 1))


class Snapshots:
    """Best weights are remembered in host memory."""

    def __init__(self):
        self.best, self.state = float("inf"), None

    def offer(self, loss, model):
        if loss < self.best:
            self.best = loss
            self.state = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}

    def restore(self, model):
        model.load_state_dict(self.state)


def batch(seed, device):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(48, 5, generator=g)
    y = torch.sin(x[:, :1] * 2) * x[:, 1:2]
    return x.to(device), y.to(device)


def run(model, opt, sched, snaps, first, last, device):
    for i in range(first, last):
        x, y = batch(i, device)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        snaps.offer(loss.item(), model)
    return loss.item()


def main():
    torch.manual_seed(24)
    device = torch.device("cuda")
    model = build()
    untouched = copy.deepcopy(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 30)
    model.to(device)

    snaps = Snapshots()
    print("first half", round(run(model, opt, sched, snaps, 0, 15, device), 5))
    disk = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict()}, disk)

    disk.seek(0)
    host = torch.load(disk, map_location="cpu")
    again = build()
    again.load_state_dict(host["model"])
    again.to(device)
    opt2 = torch.optim.Adam(again.parameters(), lr=1e-2)
    opt2.load_state_dict(host["opt"])
    sched2 = torch.optim.lr_scheduler.CosineAnnealingLR(opt2, 30)
    sched2.load_state_dict(host["sched"])

    a = run(model, opt, sched, snaps, 15, 30, device)
    b = run(again, opt2, sched2, Snapshots(), 15, 30, device)
    print("second half", round(a, 5), "same", abs(a - b) < 1e-4)

    snaps.restore(model)
    x, y = batch(99, "cpu")
    fresh = nn.functional.mse_loss(untouched.eval()(x), y).item()
    tuned = nn.functional.mse_loss(model.eval()(x.to(device)).cpu(), y).item()
    print("best", round(snaps.best, 5), "fresh", round(fresh, 4), "tuned", round(tuned, 4))


main()
