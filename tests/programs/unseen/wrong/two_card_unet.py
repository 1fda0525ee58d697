"""1-d U-Net for denoising, encoder on one card and decoder on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F

FRONT = torch.device("cuda:0")
BACK = torch.device("cuda:1")


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv1d(i, o, 5, stride, 2), nn.GroupNorm(2, o), nn.SiLU())


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = conv(1, width)
        self.b = conv(width, width * 2, 2)
        self.c = conv(width * 2, width * 2, 2)

    def forward(self, x):
        s1 = self.a(x)
        s2 = self.b(s1)
        return self.c(s2), [s2, s1]


class Decoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2)
        self.c = conv(width * 4, width)
        self.b = conv(width * 2, width)
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, h, skips):
        s2, s1 = skips
        h = self.c(torch.cat([self.up(h), s2], 1))  # RAISES: 1
        h = self.b(torch.cat([self.up(h), s1], 1))
        return self.out(h)


class SplitUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enc = Encoder(width).to(FRONT)
        self.dec = Decoder(width).to(BACK)

    def forward(self, x):
        h, skips = self.enc(x.to(FRONT))
        skips = list(skips)  # BUG: any culprit=skips
        # FIX: skips = [s.to(BACK) for s in skips]
        return self.dec(h.to(BACK), skips)  # ALSO: 1


def waves(n, length, g):
    t = torch.linspace(0, 1, length)
    freq = torch.randint(2, 7, (n, 1), generator=g)
    phase = 6.2832 * torch.rand(n, 1, generator=g)
    return torch.sin(6.2832 * freq * t + phase).unsqueeze(1)


def damage(clean, g):
    mask = torch.rand(clean.shape, generator=g) > 0.25
    return (clean + 0.2 * torch.randn(clean.shape, generator=g)) * mask, mask


def masked_error(pred, clean, mask):
    weight = torch.where(mask, 1.0, 3.0)
    return ((pred - clean) ** 2 * weight).mean()


def main():
    torch.manual_seed(15)
    g = torch.Generator().manual_seed(44)
    net = SplitUNet()
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    ramp = torch.linspace(0.5, 1.5, 32, device=FRONT)  # BUG: any culprit=ramp
    # FIX: ramp = torch.linspace(0.5, 1.5, 32, device=BACK)
    for it in range(16):
        clean = waves(16, 64, g)
        noisy, mask = damage(clean, g)
        pred = net(noisy)
        clean, mask = clean.to(FRONT), mask.to(FRONT)  # BUG: any
        # FIX: clean, mask = clean.to(BACK), mask.to(BACK)
        spectrum = (torch.fft.rfft(pred).abs() - torch.fft.rfft(clean).abs()).abs()[..., :32]  # RAISES: 3
        loss = masked_error(pred, clean, mask) + 0.02 * (spectrum * ramp).mean()  # RAISES: 2
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 4 == 3:
            base = F.mse_loss(noisy.to(BACK), clean)
            print(it + 1, f"{loss.item():.4f} {F.mse_loss(pred, clean).item():.4f} {base.item():.4f}")


main()
