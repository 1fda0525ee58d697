"""Lion, written by hand, with an EMA of the weights and a log of update norms."""
import copy
import math

import torch
import torch.nn as nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros(p.shape, dtype=p.dtype)  # BUG: any culprit=state["exp_avg"]
                    # FIX: state["exp_avg"] = torch.zeros_like(p)
                m = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])  # RAISES: 1
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model)
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)  # RAISES: 2


class Norms:
    """Mean and variance of the gradient's norm, by Welford."""

    def __init__(self):
        self.n, self.mean, self.m2 = 0, torch.zeros(2), torch.zeros(2)  # BUG 3: any culprit=self.mean
        # FIX: self.n, self.mean, self.m2 = 0, torch.zeros(2, device=device), torch.zeros(2, device=device)

    def __call__(self, model):
        sizes = torch.stack([p.grad.norm() for p in model.parameters()])
        value = torch.stack([sizes.norm(), sizes.max()])
        self.n += 1
        delta = value - self.mean  # RAISES: 3
        self.mean = self.mean + delta / self.n
        self.m2 = self.m2 + delta * (value - self.mean)

    def std(self):
        return (self.m2 / max(1, self.n - 1)).sqrt()


def spirals(n):
    t = torch.linspace(0.3, 3 * math.pi, n)
    a = torch.stack([t * t.cos(), t * t.sin()], 1) / 9
    return torch.cat([a, -a]), torch.cat([torch.zeros(n), torch.ones(n)]).long()


torch.manual_seed(0)
x, y = (t.to(device) for t in spirals(40))
net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 2))
ema = EMA(net, 0.8)  # BUG 2: any culprit=s
# FIX:
net.to(device)
# ADD 2: ema = EMA(net, 0.8)
opt = Lion(net.parameters(), lr=3e-3, weight_decay=0.01)
norms = Norms()
for i in range(10):
    loss = nn.functional.cross_entropy(net(x), y)
    net.zero_grad()
    loss.backward()
    norms(net)
    opt.step()
    ema.update(net)
print(f"loss {loss.item():.4f}")
print("norm %.4f +- %.4f" % (norms.mean[0].item(), norms.std()[0].item()))
gap = sum((a.cpu() - b.cpu()).abs().sum().item() for a, b in zip(net.state_dict().values(), ema.shadow.state_dict().values()))
print(f"ema gap {gap:.4f}")
