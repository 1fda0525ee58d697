"""A rotary table, a bias and a gate go down a stack of layers as *extras: each has a mistake of its own."""

import math

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x, angles, bias, gate):
        turned = x * angles.cos()  # RAISES: 1
        scores = self.inner(turned) @ x.transpose(1, 2) / math.sqrt(x.shape[-1])
        if bias is not None:
            scores = scores + bias  # RAISES: 2
        return (scores.softmax(-1) @ x) * gate


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = Mixer(width)

    def forward(self, x, *extras):
        return x + self.mixer(self.norm(x), *extras)


class Stack(nn.Module):
    def __init__(self, width, length, depth):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.angles = torch.outer(torch.arange(length), torch.rand(width))  # BUG: plain-attribute culprit=angles
        # FIX: self.register_buffer("angles", torch.outer(torch.arange(length), torch.rand(width)), persistent=False)

    def run(self, x, *extras):
        for layer in self.layers:
            x = layer(x, *extras)
        return x

    def forward(self, x, causal):
        steps = x.shape[1]
        gate = torch.sigmoid(x.mean())
        bias = None
        if causal:
            bias = torch.full((steps, steps), -1e4).triu(1)  # BUG: default-device culprit=bias
            # FIX: bias = torch.full((steps, steps), -1e4, device=x.device).triu(1)
        return self.run(x, self.angles[:steps], bias, gate)


torch.manual_seed(3)
device = torch.device("cuda:0")
stack = Stack(width=8, length=12, depth=2).to(device)
batch = torch.randn(3, 6, 8).to(device)
for causal in (False, True):
    print(f"{stack(batch, causal).sum().item():.4f}")
