# compare: close
# devices: 1
"""WGAN-GP: the gradient penalty differentiates a gradient (double backward) through convolutions and activations."""

import torch
import torch.nn as nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(4)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.InstanceNorm2d(8, affine=True), nn.Softplus(), nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(32, 1)),
        )

    def forward(self, x):
        return self.body(x)


generator = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Unflatten(1, (1, 8, 8))).to(device)
critic = Critic().to(device)
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=1e-3)


def gradient_penalty(real, fake):
    epsilon = torch.rand(real.size(0), 1, 1, 1).to(real.device)
    mixed = (epsilon * real + (1 - epsilon) * fake).requires_grad_(True)
    score = critic(mixed)
    (gradient,) = torch.autograd.grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((gradient.view(gradient.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


for step in range(5):
    for _ in range(2):
        real = torch.randn(8, 1, 8, 8).to(device)
        fake = generator(torch.randn(8, 4).to(device)).detach()
        penalty = gradient_penalty(real, fake)
        loss_c = critic(fake).mean() - critic(real).mean() + 10.0 * penalty
        optimizer_c.zero_grad()
        loss_c.backward()
        optimizer_c.step()
    loss_g = -critic(generator(torch.randn(8, 4).to(device))).mean()
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
    print(f"step {step} critic {loss_c.item():.4f} generator {loss_g.item():.4f} penalty {penalty.item():.4f}")

x = torch.linspace(-1, 1, 5).to(device).requires_grad_()
(first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
(third,) = torch.autograd.grad(second.sum(), x)
print("third derivative", third.tolist())
