"""A small GAN on a ring of Gaussians. Labels are made once and reused."""
import math

import torch
from torch import nn

torch.manual_seed(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

BATCH = 32
ZDIM = 4


class AdversarialLoss(nn.Module):
    def __init__(self, smooth=0.9):
        super().__init__()
        self.real_label = torch.tensor([smooth])  # BUG: any culprit=self.real_label
        # FIX: self.register_buffer("real_label", torch.tensor([smooth]))
        self.register_buffer("fake_label", torch.tensor([0.0]))
        self.inner = nn.BCEWithLogitsLoss()

    def forward(self, scores, is_real):
        target = self.real_label if is_real else self.fake_label
        return self.inner(scores, target.expand_as(scores))  # RAISES: 1


def ring(n):
    angle = torch.arange(n) * (2 * math.pi / 8)
    pts = torch.stack([angle.cos(), angle.sin()], dim=1)
    return pts + 0.01 * torch.linspace(-1, 1, n).unsqueeze(1)


G = nn.Sequential(nn.Linear(ZDIM, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
criterion = AdversarialLoss().to(device)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)

fixed_z = torch.linspace(-1, 1, BATCH * ZDIM).view(BATCH, ZDIM).to(device)

for step in range(20):
    real = ring(BATCH)  # BUG: any culprit=real
    # FIX: real = ring(BATCH).to(device)
    fake = G(fixed_z)

    loss_d = criterion(D(real), True) + criterion(D(fake.detach()), False)  # RAISES: 2
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    loss_g = criterion(D(fake), True)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

print(f"D {loss_d.item():.4f}  G {loss_g.item():.4f}")
