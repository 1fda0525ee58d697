"""Vector quantised autoencoder of short waves; the codebook follows by moving averages."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAME = 8
EMPHASIS = torch.linspace(1.0, 0.5, FRAME)  # ALSO: 2


def waves(n, gen):
    f = 1 + 3 * torch.rand(n, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    t = torch.linspace(0, 2 * math.pi, 4 * FRAME)
    return torch.sin(f * t + phase).view(n, 4, FRAME)


class Codebook(nn.Module):
    def __init__(self, n_codes, dim, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("weight", torch.randn(n_codes, dim))
        self.register_buffer("total", self.weight.clone())
        self.count = torch.ones(n_codes)  # BUG: any culprit=self.count
        # FIX: self.register_buffer("count", torch.ones(n_codes))

    def nearest(self, z):
        return torch.cdist(z, self.weight).argmin(1)

    @torch.no_grad()
    def follow(self, z, code):
        hot = F.one_hot(code, len(self.weight)).float()
        self.count = self.decay * self.count + (1 - self.decay) * hot.sum(0)  # RAISES: 1
        self.total.mul_(self.decay).add_(hot.t() @ z, alpha=1 - self.decay)
        self.weight.copy_(self.total / (self.count.unsqueeze(1) + 1e-3))
        dead = (self.count < 0.3).nonzero().flatten()
        if len(dead):
            self.weight[dead] = z[torch.randperm(len(z))[:len(dead)]]

    def forward(self, z):
        code = self.nearest(z)
        q = F.embedding(code, self.weight)
        if self.training:
            self.follow(z.detach(), code)
        return z + (q - z).detach(), F.mse_loss(z, q.detach()), code


class AutoEncoder(nn.Module):
    def __init__(self, n_codes=12, dim=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(FRAME, 24), nn.ReLU(), nn.Linear(24, dim))
        self.book = Codebook(n_codes, dim)
        self.dec = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, FRAME))

    def forward(self, x):
        z = self.enc(x.flatten(0, 1))
        q, commit, code = self.book(z)
        return self.dec(q).view_as(x), commit, code.view(x.shape[:2])


def reconstruction(out, x):
    err = (out - x) ** 2
    return (err * EMPHASIS).mean()  # BUG: any culprit=EMPHASIS  # RAISES: 2
    # FIX: return (err * EMPHASIS.to(err.device)).mean()


@torch.no_grad()
def dream(model, prior, n, gen):
    """Draws independent codes from their frequencies and decodes them."""
    codes = torch.multinomial(prior, n * 4, replacement=True, generator=gen)  # BUG: any culprit=gen|prior  # RAISES: 3
    # FIX: codes = torch.multinomial(prior.cpu(), n * 4, replacement=True, generator=gen).to(prior.device)
    return model.dec(F.embedding(codes, model.book.weight)).view(n, 4, FRAME)


def main():
    torch.manual_seed(40)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen = torch.Generator().manual_seed(40)  # ALSO: 3
    x = waves(64, gen).to(device)
    model = AutoEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(30):
        out, commit, code = model(x)
        rec = reconstruction(out, x)
        opt.zero_grad()
        (rec + 0.25 * commit).backward()
        opt.step()
        if step % 10 == 9:
            p = torch.bincount(code.flatten(), minlength=12).float() / code.numel()
            perplexity = torch.exp(-(p * (p + 1e-9).log()).sum())
            print(f"{step + 1} rec {rec.item():.4f} perplexity {perplexity.item():.3f}")
    model.eval()
    drawn = dream(model, p, 6, gen)  # ALSO: 3
    print(f"dream energy {drawn.square().mean().item():.4f}")


main()
