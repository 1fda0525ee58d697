"""Two blocks of windowed attention with relative bias and a shift, trained with mixup."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MEAN, STD = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])  # ALSO: 2


def relative_index(w):
    at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    rel = at[:, :, None] - at[:, None, :] + w - 1
    return rel[0] * (2 * w - 1) + rel[1]


def windows(x, w):
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)


def unwindows(x, w, H, W):
    C = x.shape[-1]
    return x.view(-1, H // w, W // w, w, w, C).transpose(2, 3).reshape(-1, H, W, C)


class WindowBlock(nn.Module):
    def __init__(self, dim, heads, w, size, shift):
        super().__init__()
        self.w, self.heads, self.shift = w, heads, shift
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.bias = nn.Parameter(0.02 * torch.randn((2 * w - 1) ** 2, heads))
        self.index = relative_index(w)
        self.mask = self.shift_mask(size) if shift else None  # BUG: any culprit=self.mask
        # FIX: self.register_buffer("mask", self.shift_mask(size) if shift else None)

    def shift_mask(self, size):
        zone = torch.zeros(1, size, size, 1)
        for n, s in enumerate((slice(0, -self.w), slice(-self.w, -self.shift), slice(-self.shift, None))):
            zone[:, s] += 3 * n
            zone[:, :, s] += n
        z = windows(zone, self.w).squeeze(-1)
        return torch.zeros(len(z), self.w ** 2, self.w ** 2).masked_fill(z[:, :, None] != z[:, None, :], -100.0)

    def forward(self, x):
        B, H, W, C = x.shape
        h = self.norm(x)
        if self.shift:
            h = h.roll((-self.shift, -self.shift), (1, 2))
        h = windows(h, self.w)
        q, k, v = self.qkv(h).view(len(h), -1, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / (C // self.heads) ** 0.5
        att = att + self.bias[self.index].permute(2, 0, 1)
        if self.mask is not None:
            att = att + self.mask.repeat(B, 1, 1).unsqueeze(1)  # RAISES: 1
        h = unwindows(self.proj((att.softmax(-1) @ v).transpose(1, 2).flatten(2)), self.w, H, W)
        if self.shift:
            h = h.roll((self.shift, self.shift), (1, 2))
        return x + h


class TinySwin(nn.Module):
    def __init__(self, dim=16, size=8, n_classes=3):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 2, 2)
        self.blocks = nn.Sequential(WindowBlock(dim, 2, 4, size, 0), WindowBlock(dim, 2, 4, size, 2))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, img):
        img = (img - MEAN.view(3, 1, 1)) / STD.view(3, 1, 1)  # BUG: any culprit=MEAN|img  # RAISES: 2
        # FIX: img = (img - MEAN.view(3, 1, 1).to(img.device)) / STD.view(3, 1, 1).to(img.device)
        return self.head(self.blocks(self.patch(img).permute(0, 2, 3, 1)).mean((1, 2)))


def images(n, gen):
    y = torch.randint(3, (n,), generator=gen)
    x = 0.3 * torch.rand(n, 3, 16, 16, generator=gen)
    for i, c in enumerate(y):
        x[i, c, 4 * c:4 * c + 6, 2:9] += 0.6
    return x, y


def mixup(x, y, n_classes, lam):
    order = torch.randperm(len(x))
    hot = torch.eye(n_classes)[y]  # BUG: any culprit=hot  # RAISES: 3
    # FIX: hot = torch.eye(n_classes, device=y.device)[y]
    return lam * x + (1 - lam) * x[order], lam * hot + (1 - lam) * hot[order]


def main():
    torch.manual_seed(27)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = images(48, torch.Generator().manual_seed(27))
    x, y = x.to(device), y.to(device)
    net = TinySwin().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for step in range(12):
        lam = torch.distributions.Beta(2.0, 2.0).sample()
        xm, ym = mixup(x, y, 3, lam)
        loss = -(ym * F.log_softmax(net(xm), 1)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            print(f"{step + 1} lam {lam.item():.3f} loss {loss.item():.4f}")
    with torch.no_grad():
        print("accuracy", round((net(x).argmax(1) == y).float().mean().item(), 3))


main()
