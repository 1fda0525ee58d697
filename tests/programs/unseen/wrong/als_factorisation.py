"""Weighted alternating least squares with a numpy report at the end."""
import numpy as np
import torch


class Ratings:
    """Implicit-feedback counts turned into preference and confidence."""

    def __init__(self, n_users, n_items, seed):
        rng = np.random.default_rng(seed)
        taste = rng.normal(size=(n_users, 3)) @ rng.normal(size=(3, n_items))
        counts = rng.poisson(np.exp(0.6 * taste - 0.5))
        self.counts = torch.from_numpy(counts).double()
        held = rng.random(counts.shape) < 0.15
        self.held = torch.from_numpy(held)

    def to(self, device):
        self.counts = self.counts.to(device)
        self.held.to(device)  # BUG: any
        # FIX: self.held = self.held.to(device)
        return self

    @property
    def preference(self):
        return (self.counts > 0).double() * ~self.held  # RAISES: 1

    @property
    def confidence(self):
        return 1.0 + 2.0 * torch.log1p(self.counts) * ~self.held


def solve_side(fixed, pref, conf, reg):
    """Normal equations for every row at once."""
    ridge = reg * torch.eye(fixed.shape[1], dtype=fixed.dtype)  # BUG: any culprit=ridge
    # FIX: ridge = reg * torch.eye(fixed.shape[1], dtype=fixed.dtype, device=fixed.device)
    gram = torch.einsum("uk,ik,il->ukl", conf[:, :1] * 0 + 1, fixed, fixed)
    extra = torch.einsum("ui,ik,il->ukl", conf - 1, fixed, fixed)
    rhs = (conf * pref) @ fixed
    return torch.linalg.solve(gram[..., : fixed.shape[1]] / fixed.shape[1] + extra + ridge, rhs)  # RAISES: 2


def objective(U, V, pref, conf, reg):
    fit = (conf * (pref - U @ V.T) ** 2).sum()
    return (fit + reg * (U.square().sum() + V.square().sum())).item()


def hit_rate(U, V, ratings, k=5):
    score = U @ V.T
    score[ratings.preference > 0] = -1e9
    top = score.topk(k, dim=1).indices
    wanted = (ratings.counts > 0) & ratings.held
    return wanted.gather(1, top).any(1).double().mean().item()


def summarise(V):
    table = V.detach().numpy()  # BUG: any culprit=table  # RAISES: 3
    # FIX: table = V.detach().cpu().numpy()
    _, s, _ = np.linalg.svd(table - table.mean(0), full_matrices=False)
    return np.round(s / s.sum(), 4).tolist()


def main():
    device = torch.device("cuda")
    g = torch.Generator(device=device)
    g.manual_seed(77)
    ratings = Ratings(30, 40, seed=5).to(device)
    rank, reg = 4, 2.0
    U = 0.1 * torch.randn(30, rank, dtype=torch.double, device=device, generator=g)
    V = 0.1 * torch.randn(40, rank, dtype=torch.double, device=device, generator=g)
    pref, conf = ratings.preference, ratings.confidence
    for sweep in range(5):
        U = solve_side(V, pref, conf, reg)
        V = solve_side(U, pref.T, conf.T, reg)
        print(f"sweep {sweep} objective {objective(U, V, pref, conf, reg):.4f}")
    print("hit rate", round(hit_rate(U, V, ratings), 4))
    print("spectrum", summarise(V))


if __name__ == "__main__":
    main()
