"""A model is quantized by a function that puts other layers in place of its own; the optimizer has what was there before."""

import torch
from torch import nn


class Quantized(nn.Module):
    """Whole numbers, and a scale that is trained."""

    def __init__(self, layer):
        super().__init__()
        self.register_buffer("numbers", (layer.weight.detach() * 127).round().to(torch.int8))
        self.scale = nn.Parameter(torch.full((layer.out_features, 1), 1 / 127, device=layer.weight.device))

    def forward(self, x):
        return nn.functional.linear(x, self.numbers.to(x.dtype) * self.scale)


def quantize(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Quantized(child))
        else:
            quantize(child)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.ReLU(), nn.Linear(6, 2))).cuda()
trainer = torch.optim.Adam(net.parameters(), lr=1e-3)  # BUG: optimizer-before
# FIX:
quantize(net)
# ADD: trainer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(3):
    net(torch.randn(4, 6, device="cuda")).square().sum().backward()
    trainer.step()
    trainer.zero_grad()
