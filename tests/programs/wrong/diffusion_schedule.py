import torch
import torch.nn.functional as F
from torch import nn

T = 50


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1)  # ALSO: 1
    a = torch.cos((x / timesteps + s) / (1 + s) * torch.pi * 0.5) ** 2
    return torch.clip(1 - a[1:] / a[:-1], 1e-4, 0.999)


betas = cosine_beta_schedule(T)  # BUG: default-device culprit=sqrt_alphas_cumprod
# FIX: betas = cosine_beta_schedule(T).to("cuda")
alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)  # ALSO: 1
sqrt_alphas_cumprod = torch.sqrt(alphas_cumprod)  # ALSO: 1
sqrt_one_minus_alphas_cumprod = torch.sqrt(1.0 - alphas_cumprod)  # ALSO: 1


def extract(a, t, shape):
    return a.gather(-1, t).reshape(len(t), *(1 for _ in shape[1:]))  # RAISES: 1


def q_sample(x0, t, noise):
    return extract(sqrt_alphas_cumprod, t, x0.shape) * x0 + extract(sqrt_one_minus_alphas_cumprod, t, x0.shape) * noise


def make_time_embedding(dim):
    frequencies = torch.exp(torch.arange(dim // 2) * -0.5)  # BUG: default-device culprit=frequencies
    # FIX: frequencies = torch.exp(torch.arange(dim // 2, device="cuda") * -0.5)

    def embed(t):
        angles = t[:, None] * frequencies[None]  # RAISES: 2
        return torch.cat([angles.sin(), angles.cos()], dim=-1)

    return embed


class Denoiser(nn.Module):
    def __init__(self, embed):
        super().__init__()
        self.embed = embed
        self.net = nn.Sequential(nn.Linear(4 + 8, 32), nn.SiLU(), nn.Linear(32, 4))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.embed(t)], dim=-1))


torch.manual_seed(0)
model = Denoiser(make_time_embedding(8)).to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x0 = torch.randn(16, 4, device="cuda")
    t = torch.randint(0, T, (16,), device="cuda")
    noise = torch.randn_like(x0)
    loss = F.mse_loss(model(q_sample(x0, t, noise), t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.3f}")
