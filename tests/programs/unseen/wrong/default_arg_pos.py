"""ViT by hand; helper with a device parameter that nobody passes."""
from dataclasses import dataclass
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ViTConfig:
    image: int = 8
    patch: int = 2
    dim: int = 16
    heads: int = 2
    depth: int = 2
    classes: int = 4
    device: str = "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def tokens(self):
        return (self.image // self.patch) ** 2


def sincos_2d(h, w, dim, device="cpu", temperature=1000):
    y, x = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    omega = torch.arange(dim // 4, device=device) / (dim // 4 - 1)
    omega = 1.0 / temperature**omega
    y, x = y.flatten()[:, None] * omega, x.flatten()[:, None] * omega
    return torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), dim=1)


class Layer(nn.Module):
    def __init__(self, c: ViTConfig):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.att = nn.MultiheadAttention(c.dim, c.heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(c.dim, 32), nn.GELU(), nn.Linear(32, c.dim))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class ViT(nn.Module):
    def __init__(self, c: ViTConfig):
        super().__init__()
        self.c = c
        self.proj = nn.Linear(c.patch**2, c.dim)
        self.layers = nn.Sequential(*[Layer(c) for _ in range(c.depth)])
        self.head = nn.Linear(c.dim, c.classes)

    def patchify(self, im):
        p = self.c.patch
        return im.unfold(1, p, p).unfold(2, p, p).flatten(1, 2).flatten(2)

    def forward(self, im):
        side = self.c.image // self.c.patch
        x = self.proj(self.patchify(im))
        pos = sincos_2d(side, side, self.c.dim)  # BUG: any culprit=pos
        # FIX: pos = sincos_2d(side, side, self.c.dim, self.c.device)
        x = x + pos  # RAISES: 1
        return self.head(self.layers(x).mean(1))


def main(c=ViTConfig()):
    torch.manual_seed(51)
    vit = ViT(c).to(c.device)
    opt = torch.optim.AdamW(vit.parameters(), lr=3e-3)
    im = torch.sin(torch.arange(12 * 64.0) / 11).view(12, 8, 8)
    lab = torch.arange(12) % c.classes
    for a, b in zip(im.split(4), lab.split(4)):
        a, b = a.to(c.device), b.to(c.device)
        loss = F.cross_entropy(vit(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{loss.item():.4f} {c.tokens}")


if __name__ == "__main__":
    main()
