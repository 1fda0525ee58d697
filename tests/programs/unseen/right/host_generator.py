"""Flow matching with all randomness drawn on the host so runs agree across machines."""
import torch
from torch import nn


class HostRandom:
    """Draws on the CPU and hands tensors over on the compute device."""

    def __init__(self, seed, device):
        self.g = torch.Generator(device="cpu").manual_seed(seed)
        self.device = device

    def normal(self, *size):
        return torch.randn(*size, generator=self.g).to(self.device)

    def uniform(self, *size):
        return torch.rand(*size, generator=self.g).to(self.device)

    def order(self, n):
        return torch.randperm(n, generator=self.g)


class Velocity(nn.Module):
    def __init__(self, dim, hidden=40):
        super().__init__()
        freqs = 2.0 ** torch.arange(3)
        self.register_buffer("freqs", freqs, persistent=False)
        self.net = nn.Sequential(nn.Linear(dim + 6, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x, t):
        angle = t[:, None] * self.freqs
        return self.net(torch.cat([x, angle.sin(), angle.cos()], 1))


def moons(n):
    a = torch.linspace(0, 3.1416, n // 2)
    top = torch.stack([a.cos(), a.sin()], 1)
    low = torch.stack([1 - a.cos(), 0.4 - a.sin()], 1)
    return torch.cat([top, low])


def train(model, data, rnd, steps, batch):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    queue = iter(())
    for i in range(steps):
        rows = next(queue, None)
        if rows is None or len(rows) < batch:
            queue = iter(rnd.order(len(data)).split(batch))
            rows = next(queue)
        x1 = data[rows].to(rnd.device)
        x0 = rnd.normal(*x1.shape)
        t = rnd.uniform(len(x1))
        xt = torch.lerp(x0, x1, t[:, None])
        loss = (model(xt, t) - (x1 - x0)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield i, loss.item()


@torch.no_grad()
def sample(model, rnd, n, steps=12):
    x = rnd.normal(n, 2)
    for t in torch.linspace(0, 1, steps + 1)[:-1]:
        x = x + model(x, t.repeat(n).to(x.device)) / steps
    return x


def main():
    torch.manual_seed(57)
    device = torch.device("cuda")
    rnd = HostRandom(8, device)
    data = moons(200)
    model = Velocity(2).to(device)
    for i, loss in train(model, data, rnd, 45, 50):
        if i % 15 == 14:
            print(i + 1, round(loss, 4))
    pts = sample(model, rnd, 80).cpu()
    gap = torch.cdist(pts, data).min(1).values
    print("nearest", round(gap.mean().item(), 4), "std", [round(v, 4) for v in pts.std(0).tolist()])


main()
