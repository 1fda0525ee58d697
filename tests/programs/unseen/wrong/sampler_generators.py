"""Reproducible sampling: one generator for data order, one for the device's randomness."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Seeds:
    def __init__(self, seed, device):
        self.device = device
        self.data = torch.Generator(device=device).manual_seed(seed)  # BUG: any culprit=self.data
        # FIX: self.data = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator().manual_seed(seed + 1)  # BUG: any culprit=self.noise
        # FIX: self.noise = torch.Generator(device=device).manual_seed(seed + 1)


class NoisyLinear(nn.Module):
    def __init__(self, i, o, seeds):
        super().__init__()
        self.lin = nn.Linear(i, o)
        self.seeds = seeds
        self.sigma = 1e-9

    def forward(self, x):
        eps = torch.randn(x.shape, generator=self.seeds.noise, device=x.device)  # RAISES: 2
        return self.lin(x + self.sigma * eps)


def top_share(model, x, gen, draws=200):
    p = model(x).softmax(-1)
    picks = torch.multinomial(p, draws, replacement=True, generator=gen)
    return picks.shape


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seeds = Seeds(99, device)
    x = torch.linspace(-1, 1, 40).view(20, 2)
    y = (x.sum(1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, generator=seeds.data)  # ALSO: 1
    model = nn.Sequential(NoisyLinear(2, 8, seeds), nn.ReLU(), nn.Linear(8, 2)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(5):
        for bx, by in loader:  # RAISES: 1
            loss = nn.functional.cross_entropy(model(bx.to(device)), by.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
    shape = top_share(model, x.to(device), seeds.noise)
    print("%.3f" % loss.item(), tuple(shape))


if __name__ == "__main__":
    main()
