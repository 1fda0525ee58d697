# A 2-D "NeRF": rays through a field, positional encoding, volume rendering
import math
import torch
import torch.nn as nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEAR, FAR, SAMPLES = 0.5, 3.0, 8


class PosEnc:
    def __init__(self, bands):
        self.bands = 2.0 ** torch.arange(bands) * math.pi  # ALSO: 1
        self.out_dim = 2 * (1 + 2 * bands)

    def to(self, device):
        self.bands = self.bands.to(device)
        return self

    def __call__(self, x):
        a = x[..., None] * self.bands  # RAISES: 1
        return torch.cat([x, a.sin().flatten(-2), a.cos().flatten(-2)], dim=-1)


class Field(nn.Module):
    def __init__(self, bands=3, hidden=16):
        super().__init__()
        self.enc = PosEnc(bands)  # ALSO: 1
        self.mlp = nn.Sequential(nn.Linear(self.enc.out_dim, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        sigma, c = self.mlp(self.enc(x)).unbind(-1)
        return sigma.relu(), c.sigmoid()


def rays(angle, n=6):
    offs = torch.linspace(-0.5, 0.5, n)
    d = torch.stack([torch.cos(angle + offs), torch.sin(angle + offs)], -1)
    o = -1.5 * torch.stack([torch.cos(angle), torch.sin(angle)]).expand_as(d)
    return o, d


def render(field, o, d):
    z = torch.linspace(NEAR, FAR, SAMPLES, device=o.device)
    pts = o[:, None] + d[:, None] * z[None, :, None]
    sigma, c = field(pts)
    gap = torch.cat([z.diff(), torch.tensor([1e3])])  # BUG 2: any culprit=torch.tensor([1e3]) # RAISES: 2
    # FIX: gap = torch.cat([z.diff(), torch.tensor([1e3], device=o.device)])
    alpha = 1 - torch.exp(-sigma * gap)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-7], 1), 1)[:, :-1]
    w = alpha * trans
    return (w * c).sum(1), (w * z).sum(1)


def main():
    torch.manual_seed(33)
    field = Field().to(DEVICE)  # BUG 1: any culprit=field.enc.bands
    # FIX: field = Field().to(DEVICE)
    # FIX: field.enc.to(DEVICE)
    opt = torch.optim.Adam(field.parameters(), lr=5e-3)
    for i in range(10):
        o, d = rays(torch.tensor(0.3 * i))
        gt = (d[:, 0] > 0).float()  # ALSO: 3
        rgb, depth = render(field, o.to(DEVICE), d.to(DEVICE))
        loss = ((rgb - gt) ** 2).mean()  # BUG 3: any culprit=gt # RAISES: 3
        # FIX: loss = ((rgb - gt.to(DEVICE)) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{loss.item():.4f} {depth.mean().item():.4f}")


if __name__ == "__main__":
    main()
