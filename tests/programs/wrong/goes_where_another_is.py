"""Tensors that go where another one is, which was left on the host; what a loop gives, moved where it is used."""

from functools import cached_property

import torch
from torch import nn
from torch.nn import functional


class Wavelets(nn.Module):
    def __init__(self, width, scales):
        super().__init__()
        self.width, self.scales = width, scales
        self.mix = nn.Linear(scales, 3)

    @cached_property
    def bank(self):
        places = torch.linspace(-2, 2, self.width)  # BUG 1: cache culprit=model.bank
        # FIX: places = torch.linspace(-2, 2, self.width, device=self.mix.weight.device)
        scales = torch.arange(1, self.scales + 1, device=places.device)[:, None]
        return torch.exp(-((places * scales) ** 2))

    def forward(self, x):
        return self.mix(x @ self.bank.T)  # RAISES: 1


def coverage(scores):
    chosen = torch.full((len(scores),), 2)  # BUG 2: default-device culprit=chosen
    # FIX: chosen = torch.full((len(scores),), 2, device=scores.device)
    chosen[:2] = 0
    hits = functional.one_hot(chosen, scores.shape[1])
    return (scores * hits).sum()  # RAISES: 2


def batches(count):
    for number in range(count):
        yield torch.sin(torch.arange(32.0) + number).view(4, 8), torch.arange(4) % 3


def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    model = Wavelets(8, 4).to(device)
    for x, y in batches(3):
        loss = functional.cross_entropy(model(x.to(device)), y)  # BUG 3: batch-not-moved|default-device culprit=y  # RAISES: 3
        # FIX: loss = functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
    scores = model(torch.ones(4, 8, device=device)).detach()
    print(f"{loss.item():.4f} {coverage(scores).item():.4f}")


main()
