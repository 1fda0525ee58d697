"""VAE with a mixture prior and free bits."""
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal


class DeviceMixin:
    @property
    def device(self):
        return next(self.parameters()).device


class MixtureVAE(DeviceMixin, nn.Module):
    free_bits = 0.05

    def __init__(self, width, latent=4, components=5):
        super().__init__()
        self.latent, self.components = latent, components
        self.enc = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, 32), nn.GELU(), nn.Linear(32, width))
        self.mu_k = nn.Parameter(torch.randn(components, latent))
        self.scale_floor = torch.tensor(0.1)

    def prior(self):
        weights = torch.ones(self.components)  # BUG: any culprit=weights
        # FIX: weights = torch.ones(self.components, device=self.device)
        parts = Independent(Normal(self.mu_k, torch.ones_like(self.mu_k)), 1)
        return MixtureSameFamily(Categorical(weights), parts)

    def encode(self, x):
        mu, raw = self.enc(x).chunk(2, dim=-1)  # RAISES: 3
        return mu, nn.functional.softplus(raw) + self.scale_floor

    def reparameterise(self, mu, sigma):
        eps = torch.randn(mu.shape)  # BUG: any culprit=eps
        # FIX: eps = torch.randn(mu.shape, device=mu.device)
        return mu + sigma * eps  # RAISES: 2

    def forward(self, x):
        mu, sigma = self.encode(x)
        z = self.reparameterise(mu, sigma)
        log_q = Normal(mu, sigma).log_prob(z).sum(-1)
        kl = (log_q - self.prior().log_prob(z)).clamp(min=self.free_bits)  # RAISES: 1
        recon = nn.functional.binary_cross_entropy_with_logits(self.dec(z), x, reduction="none").sum(-1)
        return recon, kl

    @torch.no_grad()
    def generate(self, n):
        return torch.sigmoid(self.dec(self.prior().sample((n,))))


def bars(n, side=5):
    """Images of horizontal or vertical bars."""
    imgs = torch.zeros(n, side, side)
    for i in range(n):
        k = int(torch.randint(side, ()))
        if torch.rand(()) < 0.5:
            imgs[i, k] = 1.0
        else:
            imgs[i, :, k] = 1.0
    return imgs.flatten(1)


def main():
    torch.manual_seed(2)
    device = torch.device("cuda")
    images = bars(192)
    model = MixtureVAE(25).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(8):
        beta = min(1.0, (epoch + 1) / 5)
        running = torch.zeros(2)
        for chunk in images.split(48):  # ALSO: 3
            recon, kl = model(chunk)  # BUG: any
            # FIX: recon, kl = model(chunk.to(device))
            loss = (recon + beta * kl).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += torch.tensor([recon.mean().item(), kl.mean().item()])
        if epoch % 2 == 1:
            print(epoch, [round(v, 3) for v in (running / 4).tolist()])
    print("lit pixels", round(model.generate(32).sum(1).mean().item(), 3))


main()
