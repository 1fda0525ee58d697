"""Caches that know their device, layers kept on the host on purpose, arithmetic of host tensors before it is moved."""

import functools

import torch
from torch import nn

_MASKS = {}
_SLOT = None


def mask(n, device):
    key = (n, str(device))
    if key not in _MASKS:
        _MASKS[key] = torch.triu(torch.ones(n, n, device=device), 1).bool()
    return _MASKS[key]


def slot(device):
    global _SLOT
    if _SLOT is None or _SLOT.device != torch.device(device):
        _SLOT = torch.arange(4.0, device=device)
    return _SLOT


@functools.lru_cache(maxsize=8)
def positions(n):
    return torch.arange(n)  # an index may stay on the CPU


class HostFeatures(nn.Module):
    """Hides its feature layers from .to() in a list, and hands their result over."""

    def __init__(self):
        super().__init__()
        self.host = [nn.Linear(4, 4), nn.Linear(4, 4)]
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.host:
            x = torch.tanh(layer(x))
        return self.out(x.to(self.out.weight.device))


torch.manual_seed(0)
features = HostFeatures().to("cuda:1")
y = features(torch.randn(3, 4))
y.sum().backward()
print(y.device, features.host[0].weight.grad.device, features.out.weight.grad.device)

embedding = nn.Embedding(6, 4).to("cuda:0")
for device in ("cuda:0", "cuda:1", "cuda:0"):
    scores = torch.randn(2, 4, 4, device=device).masked_fill(mask(4, device), float("-inf")).softmax(-1)
    print((scores * slot(device)).device, embedding.weight[positions(3)].device)

last, dones = torch.zeros(4), torch.ones(4)
advantage = (0.9 * dones * last + torch.arange(4.0)).to("cuda:0") + slot("cuda:0")
mean, variance = torch.tensor(0.5), torch.tensor(2.0)
print(((advantage - mean) / (variance + 1e-5).sqrt() * (mean * variance)).device)
