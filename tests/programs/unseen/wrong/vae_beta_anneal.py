"""Beta-VAE on binary strips: config object, KL warm-up, a per-dimension usage report."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_pix: int = 24
    latent: int = 4
    batch: int = 32
    steps: int = 30
    warmup: int = 10
    device: torch.device = field(default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu"))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(cfg.n_pix, 32), nn.ReLU())
        self.mu, self.logvar = nn.Linear(32, cfg.latent), nn.Linear(32, cfg.latent)
        self.dec = nn.Sequential(nn.Linear(cfg.latent, 32), nn.ReLU(), nn.Linear(32, cfg.n_pix))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-6, 6)
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(std.size())  # BUG: any culprit=eps
        # FIX: eps = torch.randn(std.size(), device=std.device)
        return self.dec(mu + eps * std), mu, logvar  # RAISES: 1


class Strips(torch.utils.data.Dataset):
    def __init__(self, n, n_pix, seed):
        rng = np.random.default_rng(seed)
        start = rng.integers(0, n_pix - 6, n)
        cols = np.arange(n_pix)[None]
        self.rows = ((cols >= start[:, None]) & (cols < start[:, None] + 6)).astype(np.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.from_numpy(self.rows[i])

    def frequencies(self):
        return torch.from_numpy(self.rows.mean(0)).clamp(0.05, 0.95)


class Elbo:
    def __init__(self, cfg, freq):
        self.cfg = cfg
        self.pos_weight = (1 - freq) / freq
        self.pos_weight.to(cfg.device)  # BUG: any culprit=self.pos_weight
        # FIX: self.pos_weight = self.pos_weight.to(cfg.device)

    def beta(self, step):
        return min(1.0, (step + 1) / self.cfg.warmup)

    def __call__(self, x, out, mu, logvar, step):
        rec = F.binary_cross_entropy_with_logits(out, x, pos_weight=self.pos_weight, reduction="sum")  # RAISES: 2
        kl = 0.5 * (mu ** 2 + logvar.exp() - logvar - 1)
        return (rec + self.beta(step) * kl.sum()) / len(x), kl.mean(0).detach()


def usage_report(history):
    kl = np.stack([np.asarray(h) for h in history[-5:]])  # RAISES: 3  # ALSO: 3
    return np.round(kl.mean(0), 3).tolist()


def main():
    cfg = Config()
    torch.manual_seed(2)
    data = Strips(128, cfg.n_pix, seed=7)
    loader = torch.utils.data.DataLoader(data, batch_size=cfg.batch, shuffle=True)
    model = VAE(cfg).to(cfg.device)
    elbo = Elbo(cfg, data.frequencies())
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    step, history = 0, []
    while step < cfg.steps:
        for x in loader:
            x = x.to(cfg.device)
            loss, kl = elbo(x, *model(x), step)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(kl)  # BUG: any culprit=history|kl
            # FIX: history.append(kl.cpu())
            step += 1
        print(f"step {step} loss {loss.item():.4f} beta {elbo.beta(step):.2f}")
    print("kl per latent", usage_report(history))


if __name__ == "__main__":
    main()
