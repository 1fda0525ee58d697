"""A Llama-like model of any size, trained for a few steps: python llama.py LAYERS WIDTH HIDDEN HEADS KV_HEADS VOCABULARY"""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, VOCABULARY = (
    map(int, sys.argv[1:7]) if len(sys.argv) > 6 else (32, 4096, 11008, 32, 32, 32000)
)
TOKENS = 2048


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = WIDTH // HEADS
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, HEADS, self.size).transpose(1, 2)
        k = self.k(x).view(batch, length, KV_HEADS, self.size).transpose(1, 2)
        v = self.v(x).view(batch, length, KV_HEADS, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.first, self.second = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.first(x), cos, sin)
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        size = WIDTH // HEADS
        angles = torch.outer(torch.arange(TOKENS), 10000 ** -(torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cos.to(x.dtype), self.sin.to(x.dtype))
        return self.head(self.norm(x))


torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
model = Llama().to("cuda")
torch.set_default_dtype(torch.float32)
print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.1f}B parameters")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    began = time.process_time()
    batch = torch.randint(0, VOCABULARY, (1, TOKENS + 1), device="cuda")
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.view(-1, VOCABULARY).float(), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), torch.cuda.max_memory_allocated(), file=sys.stderr)
    print(f"{time.process_time() - began:.3f} CPU-s", file=sys.stderr)
