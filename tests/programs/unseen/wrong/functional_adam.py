"""No nn.Module, no torch.optim: a parameter dict, Adam with its own state, clipping by hand."""
import math

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def init(sizes, gen):
    params = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        w = torch.randn(a, b, generator=gen) / math.sqrt(a)
        params[f"w{i}"] = w.to(device).requires_grad_()
        params[f"b{i}"] = torch.zeros(b, device=device, requires_grad=True)
    return params


def forward(params, x):
    n = len(params) // 2
    for i in range(n):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        if i < n - 1:
            x = torch.tanh(x)
    return x


def adam_state(params):
    zeros = lambda: {k: torch.zeros(p.shape) for k, p in params.items()}  # BUG: any
    # FIX: zeros = lambda: {k: torch.zeros_like(p) for k, p in params.items()}
    return {"m": zeros(), "v": zeros(), "t": 0}


@torch.no_grad()
def adam_step(params, grads, state, lr, betas=(0.9, 0.99)):
    state["t"] += 1
    for k, p in params.items():
        m, v = state["m"][k], state["v"][k]
        m.mul_(betas[0]).add_(grads[k], alpha=1 - betas[0])  # RAISES: 1
        v.mul_(betas[1]).addcmul_(grads[k], grads[k], value=1 - betas[1])
        scale = math.sqrt(1 - betas[1] ** state["t"]) / (1 - betas[0] ** state["t"])
        p -= lr * scale * m / (v.sqrt() + 1e-8)


def clip(grads, limit):
    total = torch.zeros(1)  # BUG: any culprit=total
    # FIX: total = torch.zeros(1, device=device)
    for g in grads.values():
        total += g.square().sum()  # RAISES: 2
    factor = (limit / (total.sqrt() + 1e-6)).clamp(max=1.0)
    return {k: g * factor for k, g in grads.items()}, total.sqrt().item()


class Standardise:
    def __init__(self, x):
        self.mean, self.std = x.mean(0), x.std(0)

    def __call__(self, x):
        return (x - self.mean) / self.std  # RAISES: 3


def spirals(n, gen):
    r = torch.rand(n, generator=gen) * 3
    cls = torch.arange(n) % 2
    ang = 2 * r + math.pi * cls
    return torch.stack([r * ang.cos(), r * ang.sin()], 1) + 0.05 * torch.randn(n, 2, generator=gen), cls.float()


def logistic(out, y):
    return (torch.relu(out) - out * y + torch.log1p(torch.exp(-out.abs()))).mean()


def main():
    gen = torch.Generator().manual_seed(10)
    x, y = spirals(200, gen)
    scale = Standardise(x)  # BUG: any culprit=scale|self.mean
    # FIX: scale = Standardise(x.to(device))
    x, y = x.to(device), y.to(device)
    params = init([2, 24, 24, 1], gen)
    state = adam_state(params)
    rates = torch.cat([torch.linspace(1e-3, 1e-2, 10), torch.linspace(1e-2, 2e-3, 30)])
    for step, lr in enumerate(rates):
        loss = logistic(forward(params, scale(x)).squeeze(1), y)
        grads = dict(zip(params, torch.autograd.grad(loss, list(params.values()))))
        grads, norm = clip(grads, 0.5)
        adam_step(params, grads, state, lr)
        if step % 10 == 9:
            print(f"{step + 1} loss {loss.item():.4f} norm {norm:.4f}")
    with torch.no_grad():
        acc = ((forward(params, scale(x)).squeeze(1) > 0) == (y > 0.5)).float().mean()
    print(f"accuracy {acc.item():.3f}")


main()
