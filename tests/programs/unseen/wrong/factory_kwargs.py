"""Low-level layers with factory keyword arguments, as in torch.nn itself."""
import math

import torch
from torch import nn


class GroupedLinear(nn.Module):
    def __init__(self, groups, i, o, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(groups, i, o, **factory))
        self.bias = nn.Parameter(torch.zeros(groups, 1, o, **factory))
        with torch.no_grad():
            self.weight.copy_(torch.sin(torch.arange(self.weight.numel()).float()).view_as(self.weight) / math.sqrt(i))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class GroupedNorm(nn.Module):
    def __init__(self, groups, d, device=None, dtype=None):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(groups, 1, d, device=device, dtype=dtype))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain  # RAISES: 1


class Ensemble(nn.Module):
    def __init__(self, groups, d, hidden, depth=2, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        blocks = []
        for _ in range(depth):
            blocks += [GroupedLinear(groups, d, hidden, **factory), nn.SiLU(), GroupedLinear(groups, hidden, d, **factory)]
            blocks.append(GroupedNorm(groups, d))  # BUG: any culprit=self.gain
            # FIX: blocks.append(GroupedNorm(groups, d, **factory))
        self.blocks = nn.Sequential(*blocks)
        self.mix = nn.Parameter(torch.zeros(groups, **factory))

    def forward(self, x):
        y = self.blocks(x.expand(len(self.mix), -1, -1))
        return torch.einsum("g,gbd->bd", self.mix.softmax(0), y)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Ensemble(3, 4, 6, device=device, dtype=torch.float32)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.cos(torch.arange(20.0)).view(5, 4).to(device)
    for _ in range(6):
        loss = (model(x) - x.roll(1, 0)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("%.4f" % loss.item(), ["%.3f" % v for v in model.mix.tolist()])


if __name__ == "__main__":
    main()
