"""Train, checkpoint to memory, resume: running statistics and hand-kept momentum."""
import io

import torch
from torch import nn


class RunningNorm:
    """Welford statistics over features; not a module."""

    def __init__(self, width, device):
        self.device = device
        self.count = 0
        self.mean = torch.zeros(width, device=device)
        self.m2 = torch.ones(width, device=device)

    def observe(self, x):
        for row in x:
            self.count += 1
            delta = row - self.mean  # RAISES: 1
            self.mean = self.mean + delta / self.count
            self.m2 = self.m2 + delta * (row - self.mean)

    def __call__(self, x):
        return (x - self.mean) / (self.m2 / max(self.count, 1)).sqrt().clamp_min(1e-3)

    def state_dict(self):
        return {"count": self.count, "mean": self.mean, "m2": self.m2}

    def load_state_dict(self, state):
        self.count = state["count"]
        self.mean = state["mean"]  # BUG: any culprit=self.mean
        # FIX: self.mean = state["mean"].to(self.device)
        self.m2 = self.m2.copy_(state["m2"])


class Nesterov:
    def __init__(self, params, lr, mu=0.9):
        self.params, self.lr, self.mu = list(params), lr, mu
        self.velocity = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(self.mu).add_(p.grad, alpha=-self.lr)  # RAISES: 2
            p.add_(self.mu * v - self.lr * p.grad)
            p.grad = None

    def load(self, velocity):
        self.velocity = [v.clone() for v, p in zip(velocity, self.params)]  # BUG: any culprit=self.velocity
        # FIX: self.velocity = [v.to(p.device) for v, p in zip(velocity, self.params)]


def stream(start, stop, device):
    for i in range(start, stop):
        g = torch.Generator().manual_seed(1000 + i)
        x = 5 + 3 * torch.randn(24, 6, generator=g)
        y = (x[:, :1] - x[:, 1:2]).abs() + 0.1 * torch.randn(24, 1, generator=g)
        yield i, x.to(device), y  # BUG: any
        # FIX: yield i, x.to(device), y.to(device)


def make(device):
    torch.manual_seed(70)
    net = nn.Sequential(nn.Linear(6, 24), nn.SiLU(), nn.Linear(24, 1)).to(device)
    return net, RunningNorm(6, device), Nesterov(net.parameters(), lr=0.01)


def advance(net, norm, opt, start, stop, device):
    for i, x, y in stream(start, stop, device):
        norm.observe(x)
        loss = nn.functional.smooth_l1_loss(net(norm(x)), y)  # RAISES: 3
        loss.backward()
        opt.step()
        if i % 5 == 4:
            print(f"step {i + 1} loss {loss.item():.5f}")
    return loss.item()


def main():
    device = torch.device("cuda")
    net, norm, opt = make(device)
    advance(net, norm, opt, 0, 10, device)

    blob = io.BytesIO()
    torch.save({"net": net.state_dict(), "norm": norm.state_dict(), "velocity": opt.velocity, "step": 10}, blob)
    straight = advance(net, norm, opt, 10, 20, device)

    blob.seek(0)
    ckpt = torch.load(blob, map_location="cpu")
    net2, norm2, opt2 = make(device)
    net2.load_state_dict(ckpt["net"])
    norm2.load_state_dict(ckpt["norm"])
    opt2.load(ckpt["velocity"])
    resumed = advance(net2, norm2, opt2, ckpt["step"], 20, device)
    print("difference", round(abs(straight - resumed), 6))


main()
