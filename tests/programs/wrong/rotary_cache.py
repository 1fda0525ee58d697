"""Rotary embeddings, with the cos/sin tables kept from call to call."""

import torch
from torch import nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))
        self.seq_len_cached = None
        self.cos_cached = None
        self.sin_cached = None

    def forward(self, x):
        seq_len = x.shape[1]
        if seq_len != self.seq_len_cached:  # BUG: cache culprit=model.rotary.cos_cached
        # FIX: if seq_len != self.seq_len_cached or self.cos_cached.device != x.device:
            self.seq_len_cached = seq_len
            t = torch.arange(seq_len, device=x.device).type_as(self.inv_freq)
            freqs = torch.outer(t, self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1)
            self.cos_cached = emb.cos()[None]  # ALSO: 1
            self.sin_cached = emb.sin()[None]  # ALSO: 1
        return x * self.cos_cached + rotate_half(x) * self.sin_cached  # RAISES: 1  # ALSO: 1


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rotary = Rotary(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)

    def forward(self, x):
        q, k = self.rotary(self.q(x)), self.rotary(self.k(x))
        return torch.softmax(q @ k.transpose(1, 2), -1) @ x


torch.manual_seed(0)
model = Block(8)
x = torch.randn(2, 6, 8)
print("parameters", sum(p.numel() for p in model.parameters()), "output", tuple(model(x).shape))  # a dry run

model.to("cuda")
with torch.inference_mode():
    y = model(x.to("cuda"))
print("mean", round(y.mean().item(), 4))
