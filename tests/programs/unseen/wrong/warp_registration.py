"""Registers pairs of images: a net predicts a displacement, a spatial transformer applies it."""
import functools
import math

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(17)
cuda = torch.cuda.is_available()


@functools.lru_cache(maxsize=None)
def identity_grid(size):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    return torch.stack([xs, ys], -1).unsqueeze(0)


class Smoothness:
    """Penalty on second differences, by a Laplacian kernel."""

    def __init__(self, weight):
        self.weight = weight
        self.kernel = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]).view(1, 1, 3, 3).repeat(2, 1, 1, 1)  # ALSO: 2

    def to(self, device):
        self.kernel = self.kernel.to(device)
        return self

    def __call__(self, flow):
        return self.weight * F.conv2d(flow, self.kernel, groups=2).square().mean()  # RAISES: 2


class Registration(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(8, 2, 3, padding=1)
        )
        nn.init.zeros_(self.net[-1].weight)

    def forward(self, moving, target):
        flow = 0.2 * self.net(torch.cat([moving, target], 1))
        grid = identity_grid(moving.shape[-1]) + flow.permute(0, 2, 3, 1)  # BUG: any culprit=identity_grid(moving.shape[-1]) # RAISES: 1
        # FIX: grid = identity_grid(moving.shape[-1]).to(flow.device) + flow.permute(0, 2, 3, 1)
        return F.grid_sample(moving, grid, align_corners=True), flow


def blob(cx, cy, size=10):
    ys, xs = torch.meshgrid(torch.arange(float(size)), torch.arange(float(size)), indexing="ij")
    return torch.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / 6).view(1, 1, size, size)


def ncc(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.norm() * b.norm() + 1e-6)


moving = torch.cat([blob(3 + math.sin(i), 4) for i in range(4)])
target = torch.cat([blob(5, 5 + math.cos(i)) for i in range(4)])
landmarks = torch.tensor([[3.0 + math.sin(i), 4.0] for i in range(4)])  # ALSO: 3
model, smooth = Registration(), Smoothness(0.5)  # ALSO: 2
if cuda:
    model = model.cuda()
    moving, target = moving.cuda(), target.cuda()  # BUG 2: any culprit=self.kernel
    # ADD: smooth.to(moving.device)
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(12):
    warped, flow = model(moving, target)
    loss = F.mse_loss(warped, target) + smooth(flow)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"loss {loss.item():.5f} ncc {ncc(warped.detach(), target).item():.4f}")

with torch.no_grad():
    # displacement at the landmarks, in pixels
    _, flow = model(moving, target)
    at = landmarks.round().long()
    picked = torch.stack([flow[i, :, at[i, 1], at[i, 0]] for i in range(4)])  # ALSO: 3
    shifted = landmarks + picked * 4.5  # BUG: any culprit=landmarks # RAISES: 3
    # FIX: shifted = landmarks.to(picked.device) + picked * 4.5
    print([[round(v, 2) for v in row] for row in shifted.tolist()])
