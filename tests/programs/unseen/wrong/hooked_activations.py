"""What do hidden units do? Hooks collect statistics, scale activations and mask gradients."""
from collections import defaultdict
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

torch.manual_seed(12)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return self.fc(x.mean((2, 3)))


class ChannelStats:
    """Running mean by channel, by name of the layer."""

    def __init__(self, momentum=0.2):
        self.momentum = momentum
        self.means = {}

    def hook(self, name, module, args, output):
        mean = output.detach().mean((0, 2, 3))
        if name not in self.means:
            self.means[name] = torch.zeros(len(mean))  # BUG: any culprit=self.means[name]
            # FIX: self.means[name] = torch.zeros_like(mean)
        self.means[name] = (1 - self.momentum) * self.means[name] + self.momentum * mean  # RAISES: 1


@contextmanager
def scaled(module, factors):
    """While this is open, the channels of a layer are multiplied by these factors."""

    def hook(_, args, output):
        return output * factors.view(1, -1, 1, 1)  # RAISES: 2

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def freeze_channels(param, channels):
    keep = torch.ones(param.shape[0])  # BUG 3: any culprit=keep
    # FIX: keep = torch.ones(param.shape[0], device=param.device)
    keep[channels] = 0.0
    param.register_hook(lambda g: g * keep.view(-1, 1, 1, 1))  # RAISES: 3


x = torch.sin(torch.arange(12 * 36.0) * 0.21).view(12, 1, 6, 6).to(device)
y = (torch.arange(12) % 3).to(device)
net = ConvNet().to(device)
stats = ChannelStats()
for name in ("conv1", "conv2"):
    getattr(net, name).register_forward_hook(partial(stats.hook, name))
freeze_channels(net.conv2.weight, [0, 3])
before = net.conv2.weight.detach().clone()

opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(6):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
print(f"loss {loss.item():.4f}")
moved = (net.conv2.weight.detach() - before).abs().sum((1, 2, 3))
print("moved", [round(v, 3) for v in moved.tolist()])

effects = defaultdict(list)
plain = net(x).detach()
for channel in range(4):
    factors = torch.ones(4)  # ALSO: 2
    factors[channel] = 0
    with scaled(net.conv1, factors):  # BUG 2: any culprit=factors
    # FIX: with scaled(net.conv1, factors.to(device)):
        effects["conv1"].append((net(x) - plain).abs().mean().item())
print({k: [round(v, 4) for v in row] for k, row in effects.items()})
print({k: round(v.sum().item(), 4) for k, v in stats.means.items()})
