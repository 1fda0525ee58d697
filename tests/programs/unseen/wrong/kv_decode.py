"""Greedy decoding with a preallocated key/value cache."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KVCache:
    def __init__(self, batch: int, max_len: int, dim: int, device: Optional[torch.device] = None):
        self.k = torch.zeros(batch, max_len, dim, device=device)
        self.v = torch.zeros(batch, max_len, dim, device=device)
        self.len = 0

    def update(self, k: Tensor, v: Tensor):
        n = k.size(1)
        self.k[:, self.len : self.len + n] = k
        self.v[:, self.len : self.len + n] = v
        self.len += n
        return self.k[:, : self.len], self.v[:, : self.len]


class TinyLM(nn.Module):
    def __init__(self, vocab: int = 23, dim: int = 16, max_len: int = 24) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.wpe = nn.Parameter(torch.randn(max_len, dim) * 0.1)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, dim))
        self.max_len, self.dim = max_len, dim

    @property
    def device(self) -> torch.device:
        return self.wpe.device

    def forward(self, ids: Tensor, cache: KVCache) -> Tensor:
        start = cache.len
        x = self.tok(ids) + self.wpe[start : start + ids.size(1)]  # RAISES: 3
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        k, v = cache.update(k, v)
        att = q @ k.transpose(1, 2) / self.dim**0.5  # RAISES: 1
        if ids.size(1) > 1:
            rows = torch.arange(start, start + ids.size(1), device=ids.device)
            cols = torch.arange(k.size(1), device=ids.device)
            att = att.masked_fill(cols[None] > rows[:, None], float("-inf"))
        x = x + att.softmax(-1) @ v
        x = x + self.mlp(x)
        return x @ self.tok.weight.t()


@torch.inference_mode()
def generate(model: TinyLM, prompt: Tensor, steps: int, eos: int = 2) -> Tensor:
    cache = KVCache(prompt.size(0), model.max_len, model.dim)  # BUG: any culprit=cache.k
    # FIX: cache = KVCache(prompt.size(0), model.max_len, model.dim, model.device)
    finished = torch.zeros(prompt.size(0), dtype=torch.bool)  # BUG: any culprit=finished
    # FIX: finished = torch.zeros(prompt.size(0), dtype=torch.bool, device=model.device)
    out = [prompt]
    ids = prompt
    for _ in range(steps):
        logits = model(ids, cache)[:, -1]
        nxt = logits.argmax(-1)
        nxt = torch.where(finished, eos, nxt)  # RAISES: 2
        finished = finished | (nxt == eos)
        ids = nxt.unsqueeze(1)
        out.append(ids)
    return torch.cat(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(21)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lm = TinyLM().to(dev).eval()
    prompt = torch.tensor([[5, 6, 7], [1, 9, 4]])  # BUG: any culprit=prompt
    # FIX: prompt = torch.tensor([[5, 6, 7], [1, 9, 4]], device=dev)
    text = generate(lm, prompt, 8)
    print(text.shape[1], text.sum().item())
