"""A small GAN on a ring of gaussians, with an averaged generator for the samples."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

Z = 6


def ring(n, modes=8):
    k = torch.randint(modes, (n,)).float() * (2 * math.pi / modes)
    return torch.stack([k.cos(), k.sin()], 1) + 0.03 * torch.randn(n, 2)


def mlp(n_in, n_out, width=32):
    return nn.Sequential(nn.Linear(n_in, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, n_out))


class Averaged:
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)  # RAISES: 1


def bce(logit, value):
    return F.binary_cross_entropy_with_logits(logit, torch.full(logit.shape, value))  # BUG 2: any  # RAISES: 2
    # FIX: return F.binary_cross_entropy_with_logits(logit, torch.full_like(logit, value))


def d_step(G, D, opt, real, sigma):
    z = torch.randn(len(real), Z).cuda()
    fake = G(z).detach()
    jitter = sigma * torch.randn_like(real)
    loss = bce(D(real + jitter), 0.9) + bce(D(fake + jitter), 0.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def g_step(G, D, opt, n):
    loss = bce(D(G(torch.randn(n, Z).cuda())), 1.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


@torch.no_grad()
def coverage(G, z, modes=8):
    """Share of the modes which have at least one sample nearby."""
    pts = G(z)  # RAISES: 3
    ang = torch.arange(modes, device=pts.device) * (2 * math.pi / modes)
    centres = torch.stack([ang.cos(), ang.sin()], 1)
    near = torch.cdist(pts, centres).min(0).values < 0.5
    return near.float().mean().item()


def main():
    torch.manual_seed(12)
    G, D = mlp(Z, 2), mlp(2, 1)
    ema = Averaged(G, 0.9)  # BUG 1: any culprit=ema|self.shadow
    # FIX: ema = Averaged(G.cuda(), 0.9)
    G.cuda()  # ALSO: 1
    D.cuda()
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.9))
    fixed_z = torch.randn(64, Z)  # BUG 3: any culprit=fixed_z
    # FIX: fixed_z = torch.randn(64, Z).cuda()
    for it in range(20):
        real = ring(64).cuda()
        ld = d_step(G, D, opt_d, real, sigma=0.2 * (1 - it / 20))
        lg = g_step(G, D, opt_g, 64)
        ema.update(G)
        if it % 5 == 4:
            print(f"{it + 1:3d} D {ld:.4f} G {lg:.4f} cover {coverage(G, fixed_z):.3f}")
    print(f"averaged cover {coverage(ema.shadow, fixed_z):.3f}")


main()
