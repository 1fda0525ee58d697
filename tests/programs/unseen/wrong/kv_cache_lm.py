"""Tiny rotary language model: train on a repeating grammar, decode with a KV cache."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, CONTEXT = 17, 32


class KVCache:
    def __init__(self, batch, heads, limit, width, device):
        self.k = torch.zeros(batch, heads, limit, width, device=device)
        self.v = torch.zeros(batch, heads, limit, width)  # BUG: any culprit=self.v
        # FIX: self.v = torch.zeros(batch, heads, limit, width, device=device)
        self.length = 0

    def extend(self, k, v):
        stop = self.length + k.shape[2]
        self.k[:, :, self.length:stop] = k
        self.v[:, :, self.length:stop] = v
        self.length = stop
        return self.k[:, :, :stop], self.v[:, :, :stop]


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.width = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        inv = 1.0 / (100.0 ** (torch.arange(0, self.width, 2).float() / self.width))
        angle = torch.outer(torch.arange(CONTEXT).float(), inv)
        self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
        self.sin = angle.sin().repeat(1, 2)  # BUG: any culprit=self.sin
        # FIX: self.register_buffer("sin", angle.sin().repeat(1, 2), persistent=False)

    def rotate(self, x, start):
        n = x.shape[2]
        a, b = x.chunk(2, dim=-1)
        return x * self.cos[start:start + n] + torch.cat([-b, a], dim=-1) * self.sin[start:start + n]  # RAISES: 2

    def forward(self, x, cache=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        start = cache.length if cache else 0
        q, k = self.rotate(q, start), self.rotate(k, start)
        if cache:
            k, v = cache.extend(k, v)
        rows = torch.arange(start, start + T, device=x.device)
        cols = torch.arange(k.shape[2])  # BUG: any culprit=cols
        # FIX: cols = torch.arange(k.shape[2], device=x.device)
        mask = rows[:, None] >= cols[None, :]  # RAISES: 3
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # RAISES: 1
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = RotaryAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, cache=None):
        x = x + self.attn(self.n1(x), cache)
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids, caches=None):
        h = self.emb(ids)
        for i, block in enumerate(self.blocks):
            h = block(h, caches[i] if caches else None)
        return self.norm(h) @ self.emb.weight.T

    @torch.no_grad()
    def continue_from(self, prompt, n):
        caches = [KVCache(len(prompt), b.attn.heads, CONTEXT, b.attn.width, prompt.device) for b in self.blocks]
        step, out = prompt, [prompt]
        for _ in range(n):
            step = self(step, caches)[:, -1:].argmax(-1)
            out.append(step)
        return torch.cat(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(4)
    device = torch.device("cuda")
    lm = LM().to(device)
    opt = torch.optim.AdamW(lm.parameters(), lr=4e-3)
    for it in range(40):
        first = torch.randint(VOCAB, (16, 1), device=device)
        ids = (first + 3 * torch.arange(20, device=device)) % VOCAB
        loss = F.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 9:
            print(it + 1, round(loss.item(), 4))
    print(lm.continue_from(torch.tensor([[2, 5, 8]], device=device), 8).tolist())
