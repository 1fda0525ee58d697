"""Rotary attention with a cached table of angles and a causal mask built by lru_cache."""
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F


@lru_cache(maxsize=8)
def rope_table(length: int, dim: int, device: torch.device = torch.device("cpu")):
    inv = 1.0 / (100 ** (torch.arange(0, dim, 2, device=device) / dim))
    ang = torch.outer(torch.arange(length, device=device).float(), inv)
    return ang.cos(), ang.sin()


@lru_cache
def causal_mask(length: int) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)  # RAISES: 1


class RotaryAttention(nn.Module):
    def __init__(self, d_model=16, n_head=2):
        super().__init__()
        self.n_head = n_head
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split(self, x):
        b, t, c = x.shape
        return x.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (self.split(y) for y in self.in_proj(x).chunk(3, dim=-1))
        cos, sin = rope_table(t, c // self.n_head)  # BUG: any culprit=cos
        # FIX: cos, sin = rope_table(t, c // self.n_head, x.device)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        att = q @ k.transpose(-1, -2) * (c // self.n_head) ** -0.5
        att = att.masked_fill(~causal_mask(t), float("-inf"))  # BUG: any culprit=causal_mask(t) # RAISES: 2
        # FIX: att = att.masked_fill(~causal_mask(t).to(x.device), float("-inf"))
        y = att.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(b, t, c))


class CharModel(nn.Module):
    def __init__(self, vocab, d=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList([RotaryAttention(d) for _ in range(2)])
        self.norm = nn.LayerNorm(d)

    def forward(self, idx):
        x = self.wte(idx)
        for block in self.blocks:
            x = x + block(self.norm(x))
        return x @ self.wte.weight.T


torch.manual_seed(1337)
device = "cuda" if torch.cuda.is_available() else "cpu"
text = "the quick brown fox jumps over the lazy dog " * 4
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
model = CharModel(len(chars)).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)


def get_batch(i, size=12):
    starts = [(i * 7 + j * 11) % (len(data) - size - 1) for j in range(4)]
    x = torch.stack([data[s:s + size] for s in starts])
    y = torch.stack([data[s + 1:s + 1 + size] for s in starts])
    return x.to(device), y.to(device)


for i in range(15):
    xb, yb = get_batch(i)
    logits = model(xb)
    loss = F.cross_entropy(logits.flatten(0, 1), yb.flatten())
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
print(f"{loss.item():.4f}")
