"""Host generators for the host, device generators for the device; dropout masks by hand."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Random:
    device: torch.device
    seed: int = 7
    host: torch.Generator = field(init=False)
    dev: torch.Generator = field(init=False)

    def __post_init__(self):
        self.host = torch.Generator().manual_seed(self.seed)
        self.dev = torch.Generator(device=self.device).manual_seed(self.seed)

    def normal(self, *size):
        return torch.randn(*size, generator=self.dev, device=self.device)

    def keep(self, shape, p):
        return (torch.rand(shape, generator=self.dev, device=self.device) > p).float() / (1 - p)

    def order(self, n):
        return torch.randperm(n, generator=self.host)

    def choose(self, weight, n):
        """Weighted draws are done on the host, the weights may be anywhere."""
        return torch.multinomial(weight.cpu(), n, generator=self.host).to(weight.device)


class Net(nn.Module):
    def __init__(self, rnd):
        super().__init__()
        self.rnd = rnd
        self.a, self.b = nn.Linear(5, 24), nn.Linear(24, 3)
        for p in self.parameters():
            if p.dim() > 1:
                p.data.normal_(0, p.shape[1] ** -0.5, generator=rnd.host)

    def forward(self, x):
        h = F.relu(self.a(x))
        if self.training:
            h = h * self.rnd.keep(h.shape, 0.2)
        return self.b(h)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rnd = Random(device)
    net = Net(rnd).to(device)
    x = rnd.normal(150, 5)
    y = (x[:, :3] + 0.2 * rnd.normal(150, 3)).argmax(1)
    weight = torch.ones(150, device=device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(15):
        if step % 3 == 0:
            idx = rnd.order(150)[:48]
        else:
            idx = rnd.choose(weight, 48)
        each = F.cross_entropy(net(x[idx]), y[idx], reduction="none")
        opt.zero_grad()
        each.mean().backward()
        opt.step()
        weight[idx] = each.detach().clamp(0.05, 3.0)
        if step % 5 == 4:
            print(f"{step + 1} {each.mean().item():.4f} spread {weight.std().item():.4f}")
    net.eval()
    state = rnd.dev.get_state()
    first = rnd.normal(3).sum()
    rnd.dev.set_state(state)
    print("same draw", bool(first == rnd.normal(3).sum()), "acc", round((net(x).argmax(1) == y).float().mean().item(), 3))


main()
