"""Moves to the wrong one of two cards that several uses share; a list that is passed beside what is moved."""

import torch
from torch import nn
from torch.nn import functional

LEFT, RIGHT = torch.device("cuda:0"), torch.device("cuda:1")


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            kept.append(x)
        return x, kept


class Fuse(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 2)

    def forward(self, x, kept):
        first, second, _ = kept
        x = x + first  # RAISES: 1
        return self.out(x * second)


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.fuse = Trunk().to(LEFT), Fuse().to(RIGHT)

    def forward(self, x):
        last, kept = self.trunk(x)
        return self.fuse(last.to(RIGHT), kept)  # BUG 1: handoff-missing culprit=first|second|kept
        # FIX: return self.fuse(last.to(RIGHT), [each.to(RIGHT) for each in kept])


def weighted(pred, truth, weight):
    return ((pred - truth) ** 2 * weight).mean()  # RAISES: 2


def main():
    torch.manual_seed(4)
    model = Halves()
    points = torch.cos(torch.arange(30.0)).view(5, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        truth = points[:, :2] * 0.5
        pred = model(points.to(LEFT))
        truth = truth.to(LEFT)  # BUG 2: handoff-missing culprit=truth
        # FIX: truth = truth.to(RIGHT)
        loss = weighted(pred, truth, 2.0)
        worst = (pred - truth).abs().max()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.4f} {worst.item():.4f} {functional.l1_loss(pred, truth).item():.4f}")


main()
