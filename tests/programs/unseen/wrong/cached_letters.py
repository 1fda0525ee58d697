"""Character model with rotary positions: training, then cached decoding."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the cat sat on the mat and the dog sat on the log. " * 6
VOCAB = sorted(set(TEXT))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@functools.lru_cache(maxsize=None)
def rotary(length, dim):
    inv = 1.0 / 100 ** (torch.arange(0, dim, 2).float() / dim)
    ang = torch.outer(torch.arange(length).float(), inv).repeat(1, 2)  # ALSO: 1
    return ang.cos(), ang.sin()  # BUG: any
    # FIX: return ang.cos().to(device), ang.sin().to(device)


def rotate(x, start):
    cos, sin = rotary(64, x.shape[-1])  # ALSO: 1
    cos, sin = cos[start:start + x.shape[-2]], sin[start:start + x.shape[-2]]
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin  # RAISES: 1


class Cache:
    def __init__(self, batch, heads, length, dim):
        self.k = torch.zeros(batch, heads, length, dim)  # BUG: any culprit=self.k
        # FIX: self.k = torch.zeros(batch, heads, length, dim, device=device)
        self.v = torch.zeros(batch, heads, length, dim, device=device)
        self.used = 0

    def append(self, k, v):
        end = self.used + k.shape[2]
        self.k[:, :, self.used:end] = k
        self.v[:, :, self.used:end] = v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        start = cache.used if cache is not None else 0
        q, k = rotate(q, start), rotate(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        att = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # RAISES: 2
        if T > 1:
            att = att.masked_fill(torch.ones(T, T, device=x.device).triu(1).bool(), float("-inf"))
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class LM(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB), width)
        self.norm, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.head = nn.Linear(width, len(VOCAB))

    def forward(self, ids, cache=None):
        x = self.emb(ids)  # RAISES: 3
        return self.head(x + self.attn(self.norm(x), cache))


@torch.no_grad()
def generate(model, prompt, n):
    cache = Cache(1, 2, 64, 16)
    ids = torch.tensor([[VOCAB.index(c) for c in prompt]], device=device)
    out = prompt
    for _ in range(n):
        best = model(ids, cache)[0, -1].argmax().item()
        out += VOCAB[best]
        ids = torch.tensor([[best]])  # BUG: any culprit=ids
        # FIX: ids = torch.tensor([[best]], device=device)
    return out


def main():
    torch.manual_seed(1)
    data = torch.tensor([VOCAB.index(c) for c in TEXT])
    model = LM().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(30):
        at = torch.randint(len(data) - 33, (8,))
        chunk = torch.stack([data[i:i + 33] for i in at]).to(device)
        loss = F.cross_entropy(model(chunk[:, :-1]).flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"{step + 1} {loss.item():.4f}")
    print(repr(generate(model, "the ", 12)))


main()
