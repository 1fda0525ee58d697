"""A model in two halves on two cards: targets go to the first, the loss is on the second."""

import torch
from torch import nn

FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")


class Halves(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.lower = nn.Sequential(nn.Linear(features, 16), nn.ReLU()).to(FIRST)
        self.upper = nn.Linear(16, classes).to(SECOND)

    def forward(self, x):
        return self.upper(self.lower(x).to(SECOND))


def train(steps):
    model = Halves(12, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(11)
    for step in range(steps):
        samples = torch.randn(6, 12, generator=generator)
        wanted = torch.randint(0, 5, (6,), generator=generator)
        scores = model(samples.to(FIRST))
        wanted = wanted.to(FIRST)  # BUG: handoff-missing culprit=wanted
        # FIX: wanted = wanted.to(SECOND)
        loss = nn.functional.cross_entropy(scores, wanted)  # RAISES: 1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step}: {loss.item():.5f}")


torch.manual_seed(0)
train(3)
