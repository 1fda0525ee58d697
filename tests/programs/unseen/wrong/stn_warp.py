"""Spatial transformer + cutout augmentation on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpatialTransformer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.loc = nn.Sequential(nn.Flatten(), nn.Linear(size * size, 8), nn.ReLU(), nn.Linear(8, 6))
        self.loc[-1].weight.data.zero_()
        self.loc[-1].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        self.base_grid = torch.stack([xs, ys, torch.ones_like(xs)], dim=-1).view(-1, 3)  # BUG: any culprit=self.base_grid
        # FIX: self.register_buffer("base_grid", torch.stack([xs, ys, torch.ones_like(xs)], dim=-1).view(-1, 3), persistent=False)

    def forward(self, x):
        theta = self.loc(x).view(-1, 2, 3)
        grid = self.base_grid @ theta.transpose(1, 2)  # RAISES: 1
        return F.grid_sample(x, grid.view(-1, self.size, self.size, 2), align_corners=True)


class Cutout:
    def __init__(self, size, hole):
        self.size, self.hole = size, hole

    def __call__(self, x, shift):
        mask = torch.ones(self.size, self.size)  # ALSO: 2
        mask[shift:shift + self.hole, shift:shift + self.hole] = 0.0
        return x * mask  # BUG: any culprit=mask # RAISES: 2
        # FIX: return x * mask.to(x.device)


class Shear:
    def __init__(self, amount):
        self.theta = torch.tensor([[[1.0, amount, 0.0], [0.0, 1.0, 0.0]]])  # ALSO: 3

    def __call__(self, x):
        grid = F.affine_grid(self.theta.expand(len(x), -1, -1), x.shape, align_corners=True)  # BUG: any culprit=grid
        # FIX: grid = F.affine_grid(self.theta.to(x.device).expand(len(x), -1, -1), x.shape, align_corners=True)
        return F.grid_sample(x, grid, align_corners=True)  # RAISES: 3 # ALSO: 3


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(60)
    size = 8
    model = nn.Sequential(SpatialTransformer(size), nn.Flatten(), nn.Linear(size * size, 3)).to(device)
    augment = [lambda im, i: Shear(0.2)(im), Cutout(size, 3)]
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    im = torch.sin(torch.arange(9 * 64.0) * 0.21).view(9, 1, size, size).to(device)
    lab = torch.arange(9, device=device) % 3
    for i in range(5):
        x = im
        for aug in augment:
            x = aug(x, i)
        loss = F.cross_entropy(model(x), lab)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("%.4f" % loss.item())


if __name__ == "__main__":
    main()
