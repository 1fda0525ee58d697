"""WGAN with gradient penalty on rings, with conditional codes."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"
N_RINGS = 3
ZDIM = 6


def mlp(sizes, act=nn.LeakyReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def rings(n):
    which = torch.randint(N_RINGS, (n,), device=DEVICE)
    ang = torch.rand(n, device=DEVICE) * 6.2832
    rad = 0.5 + which.float() + 0.05 * torch.randn(n, device=DEVICE)
    return torch.stack([rad * ang.cos(), rad * ang.sin()], 1), which


class Conditional(nn.Module):
    def __init__(self, body, n_codes):
        super().__init__()
        self.body, self.n_codes = body, n_codes

    def forward(self, x, code):
        return self.body(torch.cat([x, F.one_hot(code, self.n_codes).float()], 1))  # RAISES: 3


def gradient_penalty(critic, real, fake, code, weight):
    mix = torch.rand(len(real), 1)  # BUG: any culprit=mix
    # FIX: mix = torch.rand(len(real), 1, device=real.device)
    inter = (mix * real + (1 - mix) * fake).requires_grad_()  # RAISES: 1
    score = critic(inter, code)
    seed = torch.ones(score.shape)  # BUG: any culprit=seed
    # FIX: seed = torch.ones_like(score)
    (grad,) = torch.autograd.grad(score, inter, grad_outputs=seed, create_graph=True)  # RAISES: 2
    return weight * (grad.norm(dim=1) - 1).pow(2).mean()


def critic_step(gen, critic, opt, penalty, batch):
    real, code = rings(batch)
    with torch.no_grad():
        fake = gen(torch.randn(batch, ZDIM, device=DEVICE), code)
    gap = critic(real, code).mean() - critic(fake, code).mean()
    loss = penalty(critic, real, fake, code) - gap
    opt.zero_grad()
    loss.backward()
    opt.step()
    return gap.item()


def gen_step(gen, critic, opt, draw_noise, batch):
    code = torch.randint(N_RINGS, (batch,), device=DEVICE)
    loss = -critic(gen(draw_noise(batch), code), code).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    torch.manual_seed(17)
    gen = Conditional(mlp([ZDIM + N_RINGS, 32, 32, 2]), N_RINGS).to(DEVICE)
    critic = Conditional(mlp([2 + N_RINGS, 32, 32, 1]), N_RINGS).to(DEVICE)
    g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.9))
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    penalty = functools.partial(gradient_penalty, weight=5.0)
    preview = torch.randn(9, ZDIM, device=DEVICE), torch.arange(9) % N_RINGS  # BUG: any culprit=preview
    # FIX: preview = torch.randn(9, ZDIM, device=DEVICE), torch.arange(9, device=DEVICE) % N_RINGS
    for it in range(20):
        for _ in range(2):
            gap = critic_step(gen, critic, c_opt, penalty, 64)
        g = gen_step(gen, critic, g_opt, lambda n: torch.randn(n, ZDIM, device=DEVICE), 64)
        if it % 5 == 4:
            print(f"{it + 1}: gap {gap:.4f} gen {g:.4f}")
    with torch.no_grad():
        radius = gen(*preview).norm(dim=1).view(3, N_RINGS).mean(0)
    print([round(r, 3) for r in radius.tolist()])


main()
