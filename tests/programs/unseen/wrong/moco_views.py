"""Contrastive learning with a negative queue and a momentum key encoder."""
import copy
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F


@lru_cache(maxsize=None)
def off_diagonal(n, device):
    return ~torch.eye(n, dtype=torch.bool)  # BUG: any
    # FIX: return ~torch.eye(n, dtype=torch.bool, device=device)


class Encoder(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, dim))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)


class MoCo(nn.Module):
    def __init__(self, width, dim=12, slots=128, momentum=0.95):
        super().__init__()
        self.query = Encoder(width, dim)
        self.key = copy.deepcopy(self.query)
        self.key.requires_grad_(False)
        self.queue = F.normalize(torch.randn(slots, dim), dim=1)  # BUG: any culprit=self.queue
        # FIX: self.register_buffer("queue", F.normalize(torch.randn(slots, dim), dim=1))
        self.cursor, self.momentum = 0, momentum

    @torch.no_grad()
    def _advance_key(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.lerp_(q, 1 - self.momentum)

    @torch.no_grad()
    def _enqueue(self, keys):
        end = self.cursor + len(keys)
        self.queue[self.cursor:end] = keys
        self.cursor = end % len(self.queue)

    def forward(self, a, b, temperature=0.2):
        q = self.query(a)
        with torch.no_grad():
            self._advance_key()
            k = self.key(b)
        pos = (q * k).sum(1, keepdim=True)
        logits = torch.cat([pos, q @ self.queue.clone().T], dim=1) / temperature  # RAISES: 2
        target = torch.zeros(len(q), dtype=torch.long)  # BUG: any culprit=target
        # FIX: target = torch.zeros(len(q), dtype=torch.long, device=logits.device)
        self._enqueue(k)
        return F.cross_entropy(logits, target), q  # RAISES: 3


def uniformity(z):
    sq = torch.cdist(z, z).pow(2)
    return sq[off_diagonal(len(z), z.device)].mul(-2).exp().mean().log()


def alignment_spread(z):
    sim = z @ z.T
    return sim.masked_fill(~off_diagonal(len(z), z.device), 0.0).abs().mean()  # RAISES: 1


def two_views(x, strength=0.3):
    keep = (torch.rand_like(x) > 0.2).float()
    return x + strength * torch.randn_like(x), x * keep


def main():
    torch.manual_seed(13)
    device = "cuda"
    centres = 2 * torch.randn(8, 16)
    data = (centres[torch.arange(256) % 8] + 0.3 * torch.randn(256, 16)).to(device)
    net = MoCo(16).to(device)
    opt = torch.optim.SGD(net.query.parameters(), lr=0.1, momentum=0.9)
    for step in range(24):
        rows = torch.randperm(256)[:32]
        loss, q = net(*two_views(data[rows]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 8 == 7:
            with torch.no_grad():
                print(step + 1, f"{loss.item():.4f} {uniformity(q).item():.4f} {alignment_spread(q).item():.4f}")


main()
