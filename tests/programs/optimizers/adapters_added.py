"""Adapters are put around frozen layers; the optimizer has only what is frozen now."""

import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False, device=base.weight.device)
        self.up = nn.Linear(2, base.out_features, bias=False, device=base.weight.device)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters())  # BUG: optimizer-before
# FIX:
for number in (0, 2):
    model[number] = Adapter(model[number])
# ADD: optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for _ in range(2):
    model(torch.randn(3, 4, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
