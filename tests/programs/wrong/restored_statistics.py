"""Statistics that a plain object takes from a checkpoint as they are; a table that a module is given before it moves."""

import io

import torch
from torch import nn


class Whitening:
    def __init__(self, width, device):
        self.where = device
        self.center = torch.zeros(width, device=device)

    def fit(self, x):
        self.center = x.mean(0)

    def restore(self, state):
        self.center = state["center"]  # BUG 1: checkpoint culprit=whitening.center|other.center
        # FIX: self.center = state["center"].to(self.where)

    def __call__(self, x):
        return x - self.center  # RAISES: 1


class Weighted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 2)
        self.rarity = None  # BUG 2: plain-attribute culprit=model.rarity
        # FIX: self.register_buffer("rarity", None, persistent=False)

    def learn(self, counts):
        self.rarity = (1 + counts.float()).rsqrt()  # ALSO: 2

    def forward(self, x):
        return self.out(x * self.rarity)  # RAISES: 2


def main():
    torch.manual_seed(5)
    device = torch.device("cuda")
    x = torch.sin(torch.arange(24.0)).view(6, 4).to(device)
    whitening = Whitening(4, device)
    whitening.fit(x)
    blob = io.BytesIO()
    torch.save({"center": whitening.center}, blob)
    blob.seek(0)
    other = Whitening(4, device)
    other.restore(torch.load(blob, map_location="cpu"))
    model = Weighted(4)
    model.learn(torch.tensor([1, 0, 3, 2]))
    model.to(device)
    print(f"{model(other(x)).sum().item():.4f}")


main()
