"""Reproducible noise: every draw takes a generator."""

import torch
from torch import nn


class NoiseSource:
    def __init__(self, seed, device):
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)  # BUG: generator culprit=self.generator|noise.generator
        # FIX: self.generator = torch.Generator(device=device).manual_seed(seed)

    def __call__(self, *shape):
        return torch.randn(*shape, generator=self.generator, device=self.device)  # RAISES: 1


def shuffled(count, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)  # BUG: generator culprit=g
    # FIX: g = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=g)  # RAISES: 2  # ALSO: 2


noise = NoiseSource(7, torch.device("cuda:0"))
torch.manual_seed(0)
denoise = nn.Linear(4, 4).to("cuda:0")
optimizer = torch.optim.SGD(denoise.parameters(), lr=0.1)
clean = torch.ones(12, 4, device="cuda:0")
for step in range(2):
    noisy = clean + 0.1 * noise(12, 4)
    order = shuffled(12, seed=step)
    loss = (denoise(noisy[order]) - clean).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ok", loss.item() > 0)
