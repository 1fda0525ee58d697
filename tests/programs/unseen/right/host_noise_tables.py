"""A score model whose noise tables stay on the host; only the picked levels are sent."""
import torch
import torch.nn as nn


class Levels:
    def __init__(self, n=12, low=0.05, high=1.5):
        self.sigma = torch.logspace(torch.tensor(high).log10().item(), torch.tensor(low).log10().item(), n)
        self.weight = self.sigma ** 2

    def __len__(self):
        return len(self.sigma)

    def pick(self, t, like):
        host = t.cpu()
        return [v[host].unsqueeze(1).to(like.device) for v in (self.sigma, self.weight)]


class Score(nn.Module):
    def __init__(self, n_levels, width=32):
        super().__init__()
        self.level = nn.Embedding(n_levels, width)
        self.a, self.b, self.c = nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x, t):
        h = torch.relu(self.a(x) + self.level(t))
        return self.c(torch.relu(self.b(h)))


class Running:
    """Mean loss for each level, kept on the host."""

    def __init__(self, n):
        self.total, self.count = torch.zeros(n, dtype=torch.double), torch.zeros(n, dtype=torch.double)

    def add(self, t, each):
        t, each = t.cpu(), each.detach().double().cpu()
        self.total.index_add_(0, t, each)
        self.count.index_add_(0, t, torch.ones_like(each))

    def mean(self):
        return self.total / self.count.clamp(min=1)


@torch.no_grad()
def langevin(net, levels, n, device, inner=3):
    x = levels.sigma[0] * torch.randn(n, 2, device=device)
    for i, sigma in enumerate(levels.sigma):
        t = torch.full((n,), i, device=device)
        step = 0.1 * sigma ** 2
        for _ in range(inner):
            x = x + step * net(x, t) / sigma + (2 * step).sqrt() * torch.randn_like(x)
    return x


def main():
    torch.manual_seed(58)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    levels, gen = Levels(), torch.Generator().manual_seed(58)
    data = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])[torch.randint(2, (256,), generator=gen)]
    data = (data + 0.1 * torch.randn(256, 2, generator=gen)).to(device)
    net = Score(len(levels)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    seen = Running(len(levels))
    for step in range(40):
        x = data[torch.randint(256, (64,), generator=gen)]
        t = torch.randint(len(levels), (64,), generator=gen).to(device)
        sigma, weight = levels.pick(t, like=x)
        eps = torch.randn_like(x)
        out = net(x + sigma * eps, t) / sigma
        each = (weight * (out + eps / sigma).square()).sum(1)
        opt.zero_grad()
        each.mean().backward()
        opt.step()
        seen.add(t, each)
        if step % 10 == 9:
            print(f"{step + 1} loss {each.mean().item():.4f}")
    print("per level", [round(v, 3) for v in seen.mean()[::4].tolist()])
    drawn = langevin(net, levels, 64, device).cpu()
    near = torch.cdist(drawn, torch.tensor([[1.0, 1.0], [-1.0, -1.0]])).min(1).values
    print(f"distance to the modes {near.mean().item():.4f}")


main()
