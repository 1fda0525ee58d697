"""Caches that know the device they were made for."""
from functools import lru_cache

import torch
from torch import nn


@lru_cache(maxsize=16)
def causal_mask(length, device):
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("frequencies", torch.arange(width // 2).float(), persistent=False)
        self.tables = {}

    def positions(self, x):
        key = (x.size(1), x.device)
        if key not in self.tables:
            angles = torch.arange(x.size(1), device=x.device)[:, None] / 10 ** self.frequencies
            self.tables[key] = torch.cat([angles.sin(), angles.cos()], -1)
        return self.tables[key]

    def forward(self, x):
        q, k, v = self.qkv(x + self.positions(x)).chunk(3, -1)
        scores = (q @ k.transpose(1, 2)).masked_fill(causal_mask(x.size(1), x.device), -1e9)
        return scores.softmax(-1) @ v


torch.manual_seed(0)
attention = Attention(8)
x = torch.randn(2, 5, 8)
outputs = []
for device in ("cpu", "cuda:0", "cuda:1", "cuda:0"):
    outputs.append(attention.to(device)(x.to(device)).detach().cpu())
print(len(attention.tables), all(torch.allclose(o, outputs[0], atol=1e-5) for o in outputs))
