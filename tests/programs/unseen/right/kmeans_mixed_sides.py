"""Mini-batch k-means on network features: distances on the device, bookkeeping on the host."""
import numpy as np
import torch
import torch.nn as nn


class Book:
    """What is known of the clusters; only the centres are on the device."""

    def __init__(self, k, dim, device):
        self.centres = torch.zeros(k, dim, device=device)
        self.count = torch.zeros(k)
        self.history = []

    def start(self, feats, rng):
        first = rng.choice(len(feats), len(self.centres), replace=False)
        self.centres[:] = feats[first]

    def assign(self, feats):
        return torch.cdist(feats, self.centres).argmin(1)

    def update(self, feats, code):
        host = code.cpu()
        self.count += torch.bincount(host, minlength=len(self.count))
        for c in host.unique():
            mine = host == c
            rate = mine.sum() / self.count[c]  # 0-dim, on the host
            self.centres[c] += rate * (feats[mine].mean(0) - self.centres[c])

    def reseed(self, feats, rng):
        """Empty clusters take a point far from all the centres."""
        empty = (self.count == 0).nonzero().flatten()
        if len(empty):
            far = torch.cdist(feats, self.centres).min(1).values.topk(len(empty)).indices
            self.centres[empty] = feats[far]
            self.count[empty] = torch.tensor(1.0)

    def inertia(self, feats):
        d = torch.cdist(feats, self.centres).min(1).values.square().mean()
        self.history.append(d.item())
        return self.history[-1]


def features(device, gen):
    net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 6)).to(device).requires_grad_(False)
    side = torch.randint(5, (240,), generator=gen)
    x = 2 * torch.randn(5, 3, generator=gen)[side] + 0.2 * torch.randn(240, 3, generator=gen)
    return net(x.to(device)), side


def purity(code, side):
    table = np.zeros((5, 5), dtype=int)
    np.add.at(table, (code.cpu().numpy(), side.numpy()), 1)
    return table.max(1).sum() / table.sum()


def main():
    torch.manual_seed(45)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen, rng = torch.Generator().manual_seed(45), np.random.default_rng(45)
    feats, side = features(device, gen)
    book = Book(5, 6, device)
    book.start(feats, rng)
    print(f"start {book.inertia(feats):.5f}")
    for sweep in range(4):
        for idx in torch.randperm(len(feats), generator=gen).split(60):
            batch = feats[idx]
            book.update(batch, book.assign(batch))
        book.reseed(feats, rng)
        print(f"sweep {sweep} inertia {book.inertia(feats):.5f}")
    print(f"purity {purity(book.assign(feats), side):.3f} counts {book.count.sum().item():.1f}")


main()
