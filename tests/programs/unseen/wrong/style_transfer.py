"""Neural style transfer over a small random-feature network with forward hooks."""
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F


class Normalise(nn.Module):
    MEAN = (0.48, 0.46, 0.41)
    STD = (0.23, 0.22, 0.22)

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(self.MEAN).view(3, 1, 1))
        self.std = torch.tensor(self.STD).view(3, 1, 1)  # BUG: any culprit=self.std
        # FIX: self.register_buffer("std", torch.tensor(self.STD).view(3, 1, 1))

    def forward(self, img):
        return (img - self.mean) / self.std  # RAISES: 1  # RAISES: 2


def feature_net():
    return nn.Sequential(
        OrderedDict(
            norm=Normalise(),
            conv1=nn.Conv2d(3, 8, 3, padding=1),
            relu1=nn.ReLU(),
            pool=nn.AvgPool2d(2),
            conv2=nn.Conv2d(8, 16, 3, padding=1),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(16, 16, 3, padding=1),
        )
    ).requires_grad_(False)


class Tap:
    """Records activations of the named layers."""

    def __init__(self, net, names):
        self.store = {}
        self.handles = [net.get_submodule(n).register_forward_hook(self._hook(n)) for n in names]

    def _hook(self, name):
        def record(_module, _inputs, output):
            self.store[name] = output
        return record

    def close(self):
        for h in self.handles:
            h.remove()


def gram(f):
    f = f.flatten(1)
    return f @ f.T / f.numel()


def stripes(size, device):
    row = torch.arange(size, device=device)
    wave = (torch.sin(row[:, None] * 0.9 + row[None, :] * 0.4) + 1) / 2
    return torch.stack([wave, 1 - wave, wave.T])


def disc(size, device):
    axis = torch.linspace(-1, 1, size)  # BUG: any culprit=axis
    # FIX: axis = torch.linspace(-1, 1, size, device=device)
    inside = (axis[:, None] ** 2 + axis[None, :] ** 2 < 0.5).float()
    return torch.stack([inside, 0.5 * inside, 0.2 + 0.3 * inside])


def total_variation(img):
    return img.diff(dim=1).abs().mean() + img.diff(dim=2).abs().mean()


def main():
    torch.manual_seed(23)
    device = "cuda"
    net = feature_net().to(device)
    tap = Tap(net, ["conv1", "conv2", "conv3"])
    content, style = disc(24, device), stripes(24, device)

    net(style)
    wanted = {name: gram(act) for name, act in tap.store.items()}
    net(content)
    layout = tap.store["conv3"].clone()
    mix = torch.tensor([1.0, 1.0, 0.5])  # BUG: any culprit=mix
    # FIX: mix = torch.tensor([1.0, 1.0, 0.5], device=device)

    canvas = nn.Parameter(content.clone())
    opt = torch.optim.Adam([canvas], lr=0.03)
    for it in range(20):
        net(canvas)
        per_layer = torch.stack([F.mse_loss(gram(tap.store[n]), g) for n, g in wanted.items()])
        style_loss = per_layer @ mix  # RAISES: 3
        loss = 1e3 * style_loss + F.mse_loss(tap.store["conv3"], layout) + 0.05 * total_variation(canvas)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 4:
            print(it + 1, f"{loss.item():.5f} {style_loss.item():.6f}")
    tap.close()
    print("mean pixel", [round(v, 4) for v in canvas.detach().mean((1, 2)).tolist()])


main()
