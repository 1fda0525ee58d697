# compare: close
# devices: 1
"""A denoising diffusion model in small: UNet with GroupNorm, SiLU, time embedding, skip connections; then sampling."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


def time_embedding(t, width):
    frequency = torch.exp(-math.log(10000) * torch.arange(width // 2, device=t.device) / (width // 2))
    angle = t.float().unsqueeze(1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, inside, outside, width=16):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.time = nn.Linear(width, outside)
        self.norm2, self.conv2 = nn.GroupNorm(4, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.stem = nn.Conv2d(1, base, 3, padding=1)
        self.down1, self.down2 = ResBlock(base, base), ResBlock(base, base * 2)
        self.middle = ResBlock(base * 2, base * 2)
        self.up2, self.up1 = ResBlock(base * 4, base), ResBlock(base * 2, base)
        self.out = nn.Conv2d(base, 1, 3, padding=1)

    def forward(self, x, t):
        t = time_embedding(t, 16)
        x1 = self.down1(self.stem(x), t)
        x2 = self.down2(F.avg_pool2d(x1, 2), t)
        x3 = self.middle(F.avg_pool2d(x2, 2), t)
        x = self.up2(torch.cat([F.interpolate(x3, scale_factor=2, mode="nearest"), x2], 1), t)
        x = self.up1(torch.cat([F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), x1], 1), t)
        return self.out(x)


parser = argparse.ArgumentParser()
parser.add_argument("--device", type=torch.device, default=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"))
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(0)
T = 20
beta = torch.linspace(1e-3, 0.2, T).to(args.device)
alpha_bar = torch.cumprod(1 - beta, dim=0)
model = UNet().to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
images = torch.zeros(16, 1, 8, 8)
images[:, :, 2:6, 2:6] = 1.0
images = images.to(args.device)

for step in range(args.steps):
    t = torch.randint(0, T, (16,)).to(args.device)
    noise = torch.randn(16, 1, 8, 8).to(args.device)
    a = alpha_bar[t].view(-1, 1, 1, 1)
    loss = F.mse_loss(model(a.sqrt() * images + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    x = torch.randn(2, 1, 8, 8).to(args.device)
    for i in reversed(range(T)):
        t = torch.full((2,), i, device=args.device)
        x = (x - beta[i] / (1 - alpha_bar[i]).sqrt() * model(x, t)) / (1 - beta[i]).sqrt()
assert x.device == args.device
print(f"sample {x.mean().item():.3f} finite {bool(x.isfinite().all())}")
