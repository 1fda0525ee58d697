"""Exponential moving average of the weights, in a small class of its own."""

import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.model = model
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}  # ALSO: 1

    @torch.no_grad()
    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)  # RAISES: 1

    def copy_to(self, other):
        other.load_state_dict(self.shadow)


torch.manual_seed(0)
model = nn.Linear(5, 2)  # ALSO: 1
ema = EMA(model)  # BUG: other|plain-container|model-not-moved|default-device culprit=ema.shadow["weight"]
# FIX: ema = EMA(model.to("cuda"))
model = model.to("cuda")  # ALSO: 1
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 5, device="cuda")
for i in range(3):
    optimizer.zero_grad()
    model(x).pow(2).sum().backward()
    optimizer.step()
    ema.update()
averaged = copy.deepcopy(model)
ema.copy_to(averaged)
print("distance", round((averaged.weight - model.weight).norm().item(), 5))
