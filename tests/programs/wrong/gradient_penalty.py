"""WGAN-GP: the penalty needs the critic's gradient."""

import torch
from torch import autograd, nn

use_cuda = torch.cuda.is_available()
device = "cuda" if use_cuda else "cpu"


def calc_gradient_penalty(netD, real_data, fake_data, lam=10):
    alpha = torch.rand(len(real_data), 1, device=device)
    interpolates = (alpha * real_data + (1 - alpha) * fake_data).requires_grad_(True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(  # RAISES: 1
        outputs=disc_interpolates,
        inputs=interpolates,
        grad_outputs=torch.ones(disc_interpolates.size()),  # BUG: default-device|gradient culprit=torch.ones(disc_interpolates.size())|grad_outputs
        # FIX: grad_outputs=torch.ones(disc_interpolates.size(), device=device),
        create_graph=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * lam


torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
netD = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
real = torch.randn(32, 2, device=device) + 3
for iteration in range(2):
    fake = netG(torch.randn(32, 2, device=device)).detach()
    penalty = calc_gradient_penalty(netD, real, fake)
    cost = netD(fake).mean() - netD(real).mean() + penalty
    optimizerD.zero_grad()
    cost.backward()
    optimizerD.step()
print("finite:", bool(torch.isfinite(cost)))
