"""Sets of points: induced attention, sizes differ, padding must not count."""
import math
import torch
from torch import nn


class Mab(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.att = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, q, k, padding=None):
        h = self.n1(q + self.att(q, k, k, key_padding_mask=padding, need_weights=False)[0])  # RAISES: 1 # RAISES: 2
        return self.n2(h + self.ff(h))


class Pool(nn.Module):
    """Seeds look at the set."""

    def __init__(self, dim, seeds):
        super().__init__()
        self.seeds = torch.sin(torch.arange(seeds * dim * 1.0)).view(1, seeds, dim) / math.sqrt(dim)  # BUG: any culprit=self.seeds
        # FIX: self.register_buffer("seeds", torch.sin(torch.arange(seeds * dim * 1.0)).view(1, seeds, dim) / math.sqrt(dim))
        self.mab = Mab(dim)

    def forward(self, x, padding):
        return self.mab(self.seeds.expand(len(x), -1, -1), x, padding)  # ALSO: 1


class SetNet(nn.Module):
    def __init__(self, dim=8, seeds=3, classes=2):
        super().__init__()
        self.lift = nn.Linear(2, dim)
        self.isab = Mab(dim)
        self.pool = Pool(dim, seeds)
        self.out = nn.Linear(dim * seeds, classes)

    @property
    def device(self):
        return self.out.weight.device

    def forward(self, x, sizes):
        h = self.lift(x)
        padding = torch.arange(x.shape[1]).unsqueeze(0) >= torch.tensor(sizes).unsqueeze(1)  # BUG 2: any culprit=padding
        # FIX: padding = torch.arange(x.shape[1], device=self.device).unsqueeze(0) >= torch.tensor(sizes, device=self.device).unsqueeze(1)
        h = self.isab(h, h, padding)
        return self.out(self.pool(h, padding).flatten(1))


def make(n):
    sets, labels = [], []
    for i in range(n):
        m = 4 + i % 5
        a = torch.linspace(0, 2 * math.pi, m)
        r = 1.0 if i % 2 else 0.4 + 0.1 * (i % 3)
        sets.append(torch.stack([a.cos() * r, a.sin() * r], 1))
        labels.append(i % 2)
    return sets, labels


def pad(sets):
    longest = max(map(len, sets))
    out = torch.zeros(len(sets), longest, 2)
    for row, s in zip(out, sets):
        row[: len(s)] = s
    return out, [len(s) for s in sets]


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def add(self, logits, labels):
        self.sum += (logits.argmax(1) == labels).sum()
        self.n += len(labels)

    @property
    def value(self):
        return float(self.sum) / self.n


if __name__ == "__main__":
    torch.manual_seed(14)
    net = SetNet()
    if torch.cuda.is_available():
        net.cuda()
    sets, labels = make(20)
    opt, meter = torch.optim.Adam(net.parameters(), lr=1e-2), Meter()
    for epoch in range(4):
        for i in range(0, 20, 5):
            x, sizes = pad(sets[i : i + 5])
            logits = net(x.to(net.device), sizes)
            y = torch.tensor(labels[i : i + 5])  # BUG: any culprit=y
            # FIX: y = torch.tensor(labels[i : i + 5], device=net.device)
            loss = nn.functional.cross_entropy(logits, y)  # RAISES: 3
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.add(logits, y.to(logits.device))
    print(f"loss {loss.item():.4f} accuracy {meter.value:.3f}")
