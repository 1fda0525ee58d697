"""Layers in plain containers that are fed from the host: nothing is refused before their results meet the rest."""

from functools import reduce

import torch
from torch import nn
from torch.nn import functional as F


class Tower(nn.Module):
    def __init__(self, width=6, depth=3):
        super().__init__()
        self.stem = [nn.Linear(width, width) for _ in range(depth)]  # BUG: plain-container culprit=tower.stem[0].weight
        # FIX: self.stem = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        return self.out(reduce(lambda h, layer: torch.relu(layer(h)), self.stem, x))  # RAISES: 1  # RAISES: 3


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = {"a": nn.Linear(6, 4), "b": nn.Linear(6, 4)}  # BUG: plain-container culprit=branches.parts["a"].weight
        # FIX: self.parts = nn.ModuleDict({"a": nn.Linear(6, 4), "b": nn.Linear(6, 4)})
        self.mix = nn.Linear(8, 2)

    def forward(self, x):
        return self.mix(torch.cat([part(x) for part in self.parts.values()], 1))  # RAISES: 2


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    tower = Tower().to(device)
    branches = Branches().to(device)
    data = [(torch.randn(4, 6), torch.randint(0, 2, (4,))) for _ in range(2)]
    opt = torch.optim.SGD([*tower.parameters(), *branches.parameters()], lr=0.1)
    for x, y in data:  # BUG: batch-not-moved culprit=x
        y = y.to(device)  # ALSO: 3
        # ADD: x = x.to(device)
        loss = F.cross_entropy(tower(x), y) + F.cross_entropy(branches(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("done")


main()
