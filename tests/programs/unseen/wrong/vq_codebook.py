"""VQ-VAE bottleneck with EMA codebook updates."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class VQConfig:
    dim: int = 4
    codes: int = 8
    decay: float = 0.8
    beta: float = 0.25
    device: torch.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class EMAQuantizer(nn.Module):
    def __init__(self, cfg: VQConfig) -> None:
        super().__init__()
        self.cfg = cfg
        codebook = torch.cos(torch.arange(cfg.codes * cfg.dim).float()).view(cfg.codes, cfg.dim)
        self.register_buffer("codebook", codebook)
        self.register_buffer("ema_sum", codebook.clone())
        self.ema_count = torch.ones(cfg.codes)  # BUG: any culprit=self.ema_count
        # FIX: self.register_buffer("ema_count", torch.ones(cfg.codes))

    def lookup(self, z: Tensor) -> Tensor:
        d = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.codebook.t() + self.codebook.pow(2).sum(1)
        return d.argmin(1)

    @torch.no_grad()
    def update(self, z: Tensor, idx: Tensor) -> None:
        hot = torch.zeros(len(z), self.cfg.codes)  # BUG: any culprit=hot
        # FIX: hot = torch.zeros(len(z), self.cfg.codes, device=z.device)
        hot.scatter_(1, idx.unsqueeze(1), 1.0)  # RAISES: 2
        self.ema_count.mul_(self.cfg.decay).add_(hot.sum(0), alpha=1 - self.cfg.decay)  # RAISES: 1
        self.ema_sum.mul_(self.cfg.decay).add_(hot.t() @ z, alpha=1 - self.cfg.decay)
        self.codebook.copy_(self.ema_sum / self.ema_count.clamp(min=1e-3).unsqueeze(1))

    def forward(self, z: Tensor):
        idx = self.lookup(z)
        q = self.codebook[idx]
        if self.training:
            self.update(z.detach(), idx)
        commit = self.cfg.beta * (z - q.detach()).pow(2).mean()
        return z + (q - z).detach(), commit, idx


class VQVAE(nn.Module):
    def __init__(self, cfg: VQConfig) -> None:
        super().__init__()
        self.enc = nn.Linear(6, cfg.dim)
        self.vq = EMAQuantizer(cfg)
        self.dec = nn.Linear(cfg.dim, 6)

    def forward(self, x: Tensor):
        q, commit, idx = self.vq(self.enc(x))
        return (self.dec(q) - x).pow(2).mean() + commit, idx


def perplexity(idx: Tensor, codes: int) -> float:
    p = torch.bincount(idx, minlength=codes).float()
    p = p / p.sum()
    return torch.exp(-(p * (p + 1e-10).log()).sum()).item()


def main() -> None:
    cfg = VQConfig()
    torch.manual_seed(77)
    net = VQVAE(cfg).to(cfg.device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.sin(torch.arange(180.0)).view(30, 6).to(cfg.device)
    for _ in range(12):
        loss, idx = net(x)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{loss.item():.4f} {perplexity(idx, cfg.codes):.3f}")


if __name__ == "__main__":
    main()
