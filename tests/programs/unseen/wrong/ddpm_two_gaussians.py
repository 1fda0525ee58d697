"""A denoising diffusion model for points in the plane."""
import torch
import torch.nn as nn


class Schedule:
    def __init__(self, steps, lo=1e-3, hi=0.15):
        self.steps = steps
        self.beta = torch.linspace(lo, hi, steps)
        self.alpha = 1 - self.beta
        self.alpha_bar = self.alpha.cumprod(0)

    def to(self, device):
        self.beta = self.beta.to(device)
        self.alpha = self.alpha.to(device)
        self.alpha_bar.to(device)  # BUG: any culprit=self.alpha_bar
        # FIX: self.alpha_bar = self.alpha_bar.to(device)
        return self

    def noise(self, x, t, eps):
        ab = pick(self.alpha_bar, t)
        return ab.sqrt() * x + (1 - ab).sqrt() * eps


def pick(table, t):
    return table.gather(0, t).unsqueeze(1)  # RAISES: 1


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.table = {}

    def forward(self, t):
        half = self.dim // 2
        if half not in self.table:
            self.table[half] = torch.exp(-4.0 * torch.arange(half) / half)  # BUG: any culprit=self.table
            # FIX: self.table[half] = torch.exp(-4.0 * torch.arange(half, device=t.device) / half)
        ang = t.float().unsqueeze(1) * self.table[half]  # RAISES: 2
        return torch.cat([ang.sin(), ang.cos()], 1)


class Denoiser(nn.Module):
    def __init__(self, dim=2, width=48):
        super().__init__()
        self.time = TimeEmbedding(16)
        self.inp = nn.Linear(dim + 16, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, dim)

    def forward(self, x, t):
        h = torch.relu(self.inp(torch.cat([x, self.time(t)], 1)))
        return self.out(h + torch.relu(self.mid(h)))


@torch.no_grad()
def sample(net, sch, n, device):
    x = torch.randn(n, 2, device=device)
    for i in reversed(range(sch.steps)):
        t = torch.full((n,), i, device=device)
        eps = net(x, t)
        mean = (x - sch.beta[i] / (1 - sch.alpha_bar[i]).sqrt() * eps) / sch.alpha[i].sqrt()
        x = mean + (sch.beta[i].sqrt() * torch.randn_like(x) if i else 0.0)
    return x


def mmd(a, b, width=0.5):
    k = lambda u, v: torch.exp(-torch.cdist(u, v) ** 2 / width).mean()  # RAISES: 3
    return (k(a, a) + k(b, b) - 2 * k(a, b)).item()


def make_data(n):
    side = torch.where(torch.rand(n, 1) < 0.5, -1.0, 1.0)
    return torch.cat([side, 0.5 * side], 1) + 0.15 * torch.randn(n, 2)


def main():
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = make_data(256)
    sch = Schedule(20).to(device)
    net = Denoiser().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    for epoch in range(8):
        for x in loader:
            x = x.to(device)
            t = torch.randint(sch.steps, (len(x),), device=device)
            eps = torch.randn_like(x)
            loss = (net(sch.noise(x, t, eps), t) - eps).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 2:
            print(f"epoch {epoch + 1} loss {loss.item():.4f}")
    drawn = sample(net, sch, 128, device)  # BUG: any culprit=data|drawn
    # FIX: drawn = sample(net, sch, 128, device).cpu()
    print(f"mmd {mmd(drawn, data):.4f}")  # ALSO: 3


main()
