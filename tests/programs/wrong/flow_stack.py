"""A normalising flow: couplings in a list, a base distribution with plain tensors."""
import torch
import torch.nn as nn
from torch.distributions import MultivariateNormal


class Coupling(nn.Module):
    def __init__(self, dim, flip):
        super().__init__()
        self.half, self.flip = dim // 2, flip
        self.net = nn.Sequential(nn.Linear(dim // 2, 8), nn.Tanh(), nn.Linear(8, dim))

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        if self.flip:
            a, b = b, a
        shift, log_scale = self.net(a).chunk(2, dim=-1)  # RAISES: 1
        b = b * log_scale.tanh().exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], dim=-1), log_scale.tanh().sum(-1)


class Flow(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.transforms = [Coupling(dim, i % 2 == 1) for i in range(depth)]  # BUG: plain-container culprit=flow.transforms[0].net[0].weight
        # FIX: self.transforms = nn.ModuleList([Coupling(dim, i % 2 == 1) for i in range(depth)])
        self.scale = nn.Parameter(torch.ones(dim))
        self.mean = torch.zeros(dim)  # BUG: plain-attribute culprit=flow.mean
        # FIX: self.register_buffer("mean", torch.zeros(dim))

    @property
    def base(self):
        return MultivariateNormal(self.mean, torch.diag(self.scale.abs() + 0.1))

    def log_prob(self, x):
        total = 0
        for transform in self.transforms:
            x, log_det = transform(x)
            total = total + log_det
        return self.base.log_prob(x) + total  # RAISES: 2


torch.manual_seed(0)
flow = Flow(4, 2).to("cuda")
optimizer = torch.optim.Adam(list(flow.parameters()), lr=1e-2)
for _ in range(3):
    x = torch.randn(10, 4, device="cuda")
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("nll is finite", bool(loss.isfinite()))
