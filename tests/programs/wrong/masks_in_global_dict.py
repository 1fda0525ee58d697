"""Masks kept in a dict of the module, for a model whose halves are on two cards; advantages from two host tensors."""

import torch
from torch import nn

_MASKS = {}


def causal_mask(n, device):
    if n not in _MASKS:  # BUG: cache culprit=_MASKS[5]
        _MASKS[n] = torch.triu(torch.ones(n, n, device=device), 1).bool()  # ALSO: 1
    return _MASKS[n]  # ALSO: 1
    # FIX: return _MASKS[n].to(device)


class Attention(nn.Module):
    def __init__(self, d, device):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d, device=device)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        score = (q @ k.transpose(-1, -2)).masked_fill(causal_mask(x.shape[1], x.device), float("-inf"))  # RAISES: 1
        return score.softmax(-1) @ v


def discounted(rewards, dones, gamma=0.9):
    total = torch.zeros_like(rewards)
    last = torch.zeros(rewards.shape[1])  # BUG: default-device culprit=last
    # FIX: last = torch.zeros(rewards.shape[1], device=rewards.device)
    for t in reversed(range(len(rewards))):
        last = rewards[t] + gamma * (1 - dones[t]) * last  # RAISES: 2  # RAISES: 3
        total[t] = last
    return total


torch.manual_seed(0)
first, second = Attention(4, "cuda:0"), Attention(4, "cuda:1")
for _ in range(2):
    h = second(first(torch.randn(2, 5, 4, device="cuda:0")).to("cuda:1"))
rewards = h.mean(-1).detach().T.contiguous()
dones = torch.zeros(5, 2)  # BUG: default-device culprit=dones
# FIX: dones = torch.zeros(5, 2, device="cuda:1")
print(tuple(h.shape), tuple(discounted(rewards, dones).shape))
