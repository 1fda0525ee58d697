"""Mini-batch spherical k-means with k-means++ seeding and dead-centre revival."""
import contextlib
import sys
from typing import NamedTuple

import torch


class Fit(NamedTuple):
    centres: torch.Tensor
    assign: torch.Tensor
    inertia: float


@contextlib.contextmanager
def report(name, log):
    log.append(name)
    try:
        yield log
    finally:
        print(" > ".join(log), file=sys.stdout)
        log.clear()


def unit(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-8)


def seed_centres(x, k, gen):
    n = len(x)
    chosen = [int(torch.randint(n, (1,), generator=gen, device=x.device))]  # RAISES: 1
    gap = 1 - x @ x[chosen[0]]
    while len(chosen) < k:
        nxt = torch.multinomial(gap.clamp_min(1e-6), 1, generator=gen)
        chosen.append(int(nxt))
        gap = torch.minimum(gap, 1 - x @ x[chosen[-1]])
    return x[chosen].clone()


class SphericalKMeans:
    def __init__(self, k, device, seed=0):
        self.k, self.device = k, device
        self.gen = torch.Generator().manual_seed(seed)  # BUG: any culprit=self.gen
        # FIX: self.gen = torch.Generator(device).manual_seed(seed)

    def fit(self, x, rounds=6, batch=100):
        x = unit(x)
        centres = seed_centres(x, self.k, self.gen)
        seen = torch.zeros(self.k)  # BUG: any culprit=seen
        # FIX: seen = torch.zeros(self.k, device=self.device)
        log = []
        for r in range(rounds):
            order = torch.randperm(len(x), generator=self.gen, device=self.device)
            with report(f"round {r}", log):
                for rows in order.split(batch):
                    xb = x[rows]
                    who = (xb @ centres.T).argmax(1)
                    hot = torch.nn.functional.one_hot(who, self.k).float()
                    seen += hot.sum(0)  # RAISES: 2
                    step = 1.0 / seen.clamp_min(1.0)
                    centres = unit(centres + step[:, None] * (hot.T @ xb - hot.sum(0)[:, None] * centres))
                score = (x @ centres.T).max(1).values
                log.append(f"{(1 - score).mean().item():.4f}")
        assign = (x @ centres.T).argmax(1)
        return Fit(centres, assign, (1 - score).sum().item())


def purity(assign, truth, k):
    table = torch.zeros(k, k, device=assign.device)
    ones = torch.ones(assign.shape)  # BUG: any culprit=ones
    # FIX: ones = torch.ones(assign.shape, device=assign.device)
    table.index_put_((assign, truth), ones, accumulate=True)  # RAISES: 3
    return (table.max(1).values.sum() / len(assign)).item()


def main():
    torch.manual_seed(1)
    device = "cuda"
    k = 5
    truth = torch.arange(500, device=device) % k
    direction = unit(torch.randn(k, 10, device=device))
    x = direction[truth] * 4 + torch.randn(500, 10, device=device)
    fit = SphericalKMeans(k, device, seed=6).fit(x)
    print("inertia", round(fit.inertia, 3), "purity", round(purity(fit.assign, truth, k), 3))
    sizes = torch.bincount(fit.assign, minlength=k)
    print("sizes", sorted(sizes.tolist()))


if __name__ == "__main__":
    main()
