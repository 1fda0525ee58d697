"""Tables are cached by device, so that both cards and the host have their own."""
import functools
import math
from collections import defaultdict

import torch
from torch import nn


class PerDevice:
    """Makes a value where it is first asked for, and keeps it there."""

    def __init__(self, make):
        self.make = make
        self.values = {}

    def on(self, device):
        device = torch.device(device)
        if device not in self.values:
            self.values[device] = self.make().to(device)
        return self.values[device]


@functools.lru_cache(maxsize=16)
def angles(length, dim, device):
    rate = torch.exp(torch.arange(0, dim, 2, device=device) * (-math.log(100.0) / dim))
    return torch.arange(length, device=device)[:, None] * rate


class Positional(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.gain = nn.Parameter(torch.ones(1))
        self._mask = None

    def mask(self, n, device):
        if self._mask is None or self._mask.shape[0] < n or self._mask.device != device:
            self._mask = torch.ones(n, n, device=device).tril().bool()
        return self._mask[:n, :n]

    def forward(self, x):
        a = angles(x.shape[1], self.dim, x.device)
        x = x + self.gain * torch.cat([a.sin(), a.cos()], -1)
        weights = (x @ x.mT / self.dim).masked_fill(~self.mask(x.shape[1], x.device), -torch.inf)
        return weights.softmax(-1) @ x


window = PerDevice(lambda: torch.hann_window(8, periodic=False))
calls = defaultdict(int)


def run(layer, x):
    calls[x.device] += 1
    y = layer(x)
    return (y * window.on(y.device)[:, None]).sum(1)


def main():
    torch.manual_seed(1)
    x = torch.sin(torch.arange(2 * 8 * 6.0)).view(2, 8, 6)
    layer = Positional(6)
    places = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count())), "cpu"]
    results = []
    for place in places:
        layer = layer.to(place)  # one layer, moved from place to place
        out = run(layer, x.to(place))
        results.append(out.detach().cpu())
    for a in results[1:]:
        assert torch.allclose(results[0], a, atol=1e-5)
    print(f"{results[0].sum().item():.4f}", len(results) - sum(calls.values()))
    # what is in the caches stays usable: indices from the host into the table of a card
    table = window.on(places[-2])
    pick = torch.tensor([1, 3, 5])
    print([round(v, 4) for v in table[pick].tolist()])
    table[pick] = 0.0
    table[torch.tensor([True, False] * 4)] += 1
    print(f"{table.sum().item():.4f} {window.on('cpu').sum().item() + (torch.cuda.device_count() == 0):.4f}")


main()
