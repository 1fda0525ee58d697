"""Weights that were copied to the host for no reason, `.cuda()` where another card is meant, a device that is the CPU."""

import torch
from torch import nn


class Anchor:
    def __init__(self, net):
        self.kept = {name: p.detach().cpu() for name, p in net.named_parameters()}  # BUG 2: handoff-missing culprit=p|anchor.kept["weight"]
        # FIX: self.kept = {name: p.detach().clone() for name, p in net.named_parameters()}

    def distance(self, net):
        return sum((p - self.kept[name]).square().sum() for name, p in net.named_parameters())  # RAISES: 2


class Scorer:
    def __init__(self, net, width):
        self.device = torch.device("cpu")  # BUG 3: handoff-missing culprit=scorer.scale|scorer.shift
        # FIX: self.device = next(net.parameters()).device
        self.net = net
        self.scale = torch.ones(width, device=self.device)
        self.shift = torch.full((width,), 0.1, device=self.device)

    def __call__(self, x):
        return self.net(x) * self.scale + self.shift  # RAISES: 3


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    net = nn.Linear(4, 3).to(device)
    anchor, scorer = Anchor(net), Scorer(net, 3)
    x = torch.sin(torch.arange(24.0)).view(6, 4).to(device)
    y = torch.arange(6).cuda() % 3  # BUG 1: handoff-missing culprit=y
    # FIX: y = torch.arange(6).to(device) % 3
    loss = nn.functional.cross_entropy(net(x), y)  # RAISES: 1
    print(loss.item() > 0, anchor.distance(net).item(), scorer(x).shape)


main()
