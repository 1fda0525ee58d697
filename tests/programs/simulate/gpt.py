# compare: close
# devices: 1
"""A hand-written GPT: SDPA, tied weights, AdamW with its default (foreach), clipping, cosine schedule, generation."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block: int = 16
    vocabulary: int = 32
    layers: int = 2
    heads: int = 4
    width: int = 32


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.proj = nn.Linear(c.width, c.width, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.attn = Attention(c)
        self.mlp = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.wte, self.wpe = nn.Embedding(c.vocabulary, c.width), nn.Embedding(c.block, c.width)
        self.h = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.ln_f = nn.LayerNorm(c.width)
        self.lm_head = nn.Linear(c.width, c.vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, (nn.Linear, nn.Embedding)) else None)

    def forward(self, idx, targets=None):
        pos = torch.arange(idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, new):
        for _ in range(new):
            logits, _ = self(idx[:, -self.config.block:])
            idx = torch.cat((idx, logits[:, -1].argmax(-1, keepdim=True)), dim=1)
        return idx


torch.manual_seed(1337)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = Config()
data = torch.tensor([(i * i + 3 * i) % config.vocabulary for i in range(2000)])
model = GPT(config).to(device)
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95))


def get_batch(size=8):
    ix = torch.randint(len(data) - config.block, (size,))
    x = torch.stack([data[i:i + config.block] for i in ix])
    y = torch.stack([data[i + 1:i + 1 + config.block] for i in ix])
    return x.to(device), y.to(device)


for it in range(12):
    lr = 1e-2 * (it + 1) / 3 if it < 3 else 1e-3 + 0.5 * 9e-3 * (1 + math.cos(math.pi * (it - 3) / 9))
    for group in optimizer.param_groups:
        group["lr"] = lr
    x, y = get_batch()
    _, loss = model(x, y)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {it} loss {loss.item():.4f} norm {norm.item():.4f} lr {lr:.5f}")

assert model.lm_head.weight is model.wte.weight and model.wte.weight.device.type == device
print("tokens", model.generate(torch.tensor([[1, 5, 11]], device=device), 8).tolist()[0][:3])
