"""MAML on sine waves with torch.func and learned per-parameter inner rates (Meta-SGD)."""
import math

import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap

DEV = torch.device("cuda")


class Regressor(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))  # RAISES: 3


class SineTasks:
    def __init__(self, shots, gen):
        self.shots, self.gen = shots, gen

    def draw(self, n_tasks):
        amp = 0.5 + 2 * torch.rand(n_tasks, 1, 1, generator=self.gen)
        phase = math.pi * torch.rand(n_tasks, 1, 1, generator=self.gen)
        x = (10 * torch.rand(n_tasks, 2 * self.shots, 1, generator=self.gen) - 5)
        y = amp * torch.sin(x + phase)
        return x.to(DEV), y.to(DEV)


def inner_loss(params, net, x, y):
    return (functional_call(net, params, (x,)) - y).square().mean()


def adapt(params, rates, net, x, y, steps):
    for _ in range(steps):
        g = grad(inner_loss)(params, net, x, y)
        params = {k: params[k] - rates[k] * g[k] for k in params}  # RAISES: 1
    return params


def make_rates(net, value):
    rates = {k: torch.full(p.shape, value) for k, p in net.named_parameters()}  # BUG: any culprit=rates
    # FIX: rates = {k: torch.full_like(p, value) for k, p in net.named_parameters()}
    return {k: r.detach().requires_grad_() for k, r in rates.items()}


def outer_loss(net, params, rates, x, y, shots, steps, weight=None):
    def one(xt, yt):
        fast = adapt(params, rates, net, xt[:shots], yt[:shots], steps)
        return inner_loss(fast, net, xt[shots:], yt[shots:])

    losses = vmap(one)(x, y)
    return losses.mean() if weight is None else (losses * weight).sum()  # RAISES: 2


class Curriculum:
    """Weighs the tasks of a meta batch; hard ones count more as training goes on."""

    def __init__(self, n_tasks):
        self.rank = torch.linspace(-1, 1, n_tasks)  # ALSO: 2

    def weights(self, step, total):
        return torch.softmax(self.rank * step / total, 0)  # BUG: any culprit=self.rank
        # FIX: return torch.softmax(self.rank * step / total, 0).to(DEV)


def evaluate(net, params, rates, shots):
    x = torch.linspace(-5, 5, 2 * shots).view(1, -1, 1)  # BUG: any culprit=x
    # FIX: x = torch.linspace(-5, 5, 2 * shots, device=DEV).view(1, -1, 1)
    x = x[:, torch.randperm(2 * shots, generator=torch.Generator().manual_seed(1))]
    y = 1.5 * torch.sin(x + 0.3)
    out = []
    for steps in (0, 1, 3):
        fast = adapt(params, rates, net, x[0, :shots], y[0, :shots], steps)
        with torch.no_grad():
            out.append(round(inner_loss(fast, net, x[0, shots:], y[0, shots:]).item(), 4))
    return out


def main():
    torch.manual_seed(17)
    net = Regressor().to(DEV)
    params = dict(net.named_parameters())
    rates = make_rates(net, 0.02)
    opt = torch.optim.Adam([*params.values(), *rates.values()], lr=3e-3)
    tasks, plan, total = SineTasks(5, torch.Generator().manual_seed(8)), Curriculum(6), 15
    for step in range(total):
        x, y = tasks.draw(6)
        loss = outer_loss(net, params, rates, x, y, 5, 1, plan.weights(step, total))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 4:
            print(f"meta {step + 1} {loss.item():.4f}")
    print("adapted after 0, 1, 3 steps", evaluate(net, params, rates, 5))


main()
