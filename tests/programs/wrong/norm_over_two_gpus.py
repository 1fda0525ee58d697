"""Clips by the global norm of a model that is spread over two GPUs, by hand."""

import torch
from torch import nn


class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(4, 8).to("cuda:0")
        self.back = nn.Linear(8, 1).to("cuda:1")

    def forward(self, x):
        return self.back(torch.relu(self.front(x.to("cuda:0"))).to("cuda:1"))


def clip_(parameters, max_norm):
    grads = [p.grad for p in parameters]
    total = sum(g.square().sum() for g in grads).sqrt()  # BUG: handoff-missing|gradient|other culprit=g.square().sum()  # RAISES: 1
    # FIX: total = sum(g.square().sum().to("cuda:0") for g in grads).sqrt()
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0).item()
    for g in grads:
        g.mul_(scale)
    return total.item()


torch.manual_seed(0)
model = Spread()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4) * 5
for _ in range(2):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    print("norm", round(clip_(list(model.parameters()), 1.0), 3))
    optimizer.step()
