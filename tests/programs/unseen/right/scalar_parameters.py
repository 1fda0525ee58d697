"""Learned 0-dim weights stay on the host and meet losses on the device; so do rates and bounds."""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")


class Weights:
    """One free scalar for each task; a host scalar may meet a device tensor, also in the backward pass."""

    def __init__(self, names):
        self.raw = {n: torch.zeros((), requires_grad=True) for n in names}

    def parameters(self):
        return list(self.raw.values())

    def __call__(self, losses):
        total = 0.0
        for n, loss in losses.items():
            total = total + loss * torch.exp(-self.raw[n]) + 0.5 * self.raw[n]
        return total

    def show(self):
        return {n: round(torch.exp(-r).item(), 3) for n, r in self.raw.items()}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 20), nn.Tanh())
        self.value, self.kind = nn.Linear(20, 1), nn.Linear(20, 3)
        self.gain = torch.tensor(1.5)  # plain and 0-dim: it needs no move

    def forward(self, x):
        h = self.trunk(x) * self.gain
        return self.value(h).squeeze(1), self.kind(h)


def warmup(steps, top):
    ramp = torch.linspace(0, 1, steps // 2)
    return top * torch.cat([ramp, ramp.flip(0)])


def main():
    torch.manual_seed(4)
    x = torch.randn(128, 6)
    value, kind = x[:, 0] * 3 + x[:, 1], x[:, 2:5].argmax(1)
    x, value, kind = x.to(device), value.to(device), kind.to(device)
    net, weights = Net().to(device), Weights(["value", "kind"])
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    slow = torch.optim.Adam(weights.parameters(), lr=5e-2)
    missing = torch.tensor(-1.0)
    for step, lr in enumerate(warmup(20, 0.2)):
        for group in opt.param_groups:
            group["lr"] = lr.item()
        v, k = net(x)
        gap = (v - value).masked_fill(value.abs() > 6, missing)
        losses = {"value": gap.square().mean(), "kind": F.cross_entropy(k, kind)}
        total = weights(losses)
        opt.zero_grad()
        slow.zero_grad()
        total.backward()
        opt.step()
        slow.step()
        if step % 5 == 4:
            print(f"{step + 1} total {total.item():.4f}", weights.show())


main()
