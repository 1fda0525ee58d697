"""Temperature-annealed categorical VAE where constants are 0-dim host tensors."""
import math

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

TAU_START, TAU_END = torch.tensor(1.0), torch.tensor(0.4)
LOG_2PI = torch.tensor(2 * math.pi).log()


class Anneal:
    """Holds its progress as a host scalar on purpose: it is only ever a factor."""

    def __init__(self, steps):
        self.curve = torch.linspace(0, 1, steps)

    def temperature(self, i):
        mix = self.curve[i]
        return TAU_START * (1 - mix) + TAU_END * mix


class Relaxed(nn.Module):
    def __init__(self, width, codes, latent):
        super().__init__()
        self.to_code = nn.Linear(width, codes)
        self.to_gauss = nn.Linear(width, 2 * latent)
        self.decode = nn.Linear(codes + latent, width)
        self.log_noise = nn.Parameter(torch.tensor(-1.0))
        self.min_scale = torch.tensor(1e-2)

    def forward(self, x, tau):
        soft = nn.functional.gumbel_softmax(self.to_code(x), tau=float(tau), dim=-1)
        mu, raw = self.to_gauss(x).chunk(2, -1)
        q = Normal(mu, nn.functional.softplus(raw) + self.min_scale)
        recon = self.decode(torch.cat([soft, q.rsample()], -1))
        ll = -0.5 * ((x - recon) / self.log_noise.exp()) ** 2 - self.log_noise - 0.5 * LOG_2PI
        kl = kl_divergence(q, Normal(0.0, 1.0)).sum(-1)
        return ll.sum(-1), kl, soft


def mixture(n, width, device):
    centre = 2 * torch.randn(4, width, device=device)
    pick = torch.randint(4, (n,), device=device)
    return centre[pick] + 0.3 * torch.randn(n, width, device=device)


def main():
    torch.manual_seed(35)
    device = "cuda"
    x = mixture(160, 7, device)
    model = Relaxed(7, 4, 2).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    anneal, best = Anneal(30), torch.tensor(math.inf)
    for i in range(30):
        tau = anneal.temperature(i)
        ll, kl, soft = model(x, tau)
        loss = (kl - ll).mean() / torch.tensor(7.0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        best = torch.minimum(best, loss.detach().cpu())
        if i % 10 == 9:
            print(i + 1, f"tau {tau.item():.3f} loss {loss.item():.4f} best {best.item():.4f}")
    print("usage", [round(v, 3) for v in soft.mean(0).tolist()])


main()
