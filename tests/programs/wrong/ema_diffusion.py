"""Noise prediction with an exponential moving average of the weights."""
import copy

import torch
from torch import nn


class EMA:
    def __init__(self, beta):
        self.beta = beta
        self.steps = 0

    def update_model_average(self, ema_model, current_model):
        for current, ema in zip(current_model.parameters(), ema_model.parameters()):
            ema.data = self.update_average(ema.data, current.data)

    def update_average(self, old, new):
        return old * self.beta + (1 - self.beta) * new  # RAISES: 1

    def step(self, ema_model, model, warmup=1):
        if self.steps >= warmup:
            self.update_model_average(ema_model, model)
        self.steps += 1


class Diffusion:
    def __init__(self, steps=20, device="cuda"):
        self.steps, self.device = steps, device
        self.beta = torch.linspace(1e-4, 0.02, steps).to(device)
        self.alpha_hat = torch.cumprod(1.0 - self.beta, dim=0)

    def noise(self, x, t):
        scale = torch.sqrt(self.alpha_hat[t])[:, None]
        eps = torch.randn_like(x)
        return scale * x + torch.sqrt(1 - self.alpha_hat[t])[:, None] * eps, eps

    def sample_timesteps(self, n):
        return torch.randint(1, self.steps, (n,))


class Denoiser(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.time = nn.Embedding(20, 8)
        self.net = nn.Sequential(nn.Linear(d + 8, 16), nn.SiLU(), nn.Linear(16, d))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], dim=-1))


def train(device="cuda"):
    model = Denoiser()
    ema_model = copy.deepcopy(model).eval().requires_grad_(False)  # BUG: model-not-moved culprit=ema_model.time.weight
    # FIX: ema_model = copy.deepcopy(model).eval().requires_grad_(False).to(device)
    model = model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    diffusion, ema, mse = Diffusion(device=device), EMA(0.9), nn.MSELoss()
    for _ in range(4):
        images = torch.randn(6, 4).to(device)
        t = diffusion.sample_timesteps(6).to(device)
        x_t, noise = diffusion.noise(images, t)
        loss = mse(model(x_t, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.step(ema_model, model)
    print("trained", ema.steps)


torch.manual_seed(0)
train()
