"""Learnable scales, one for each layer."""
import torch
from torch import nn


class ScaledStack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.scales = [nn.Parameter(torch.full((width,), 0.1)) for _ in range(depth)]  # BUG: plain-container culprit=stack.scales[0]
        # FIX: self.scales = nn.ParameterList([nn.Parameter(torch.full((width,), 0.1)) for _ in range(depth)])
        self.running = torch.zeros(width)  # BUG: plain-attribute culprit=stack.running
        # FIX: self.register_buffer("running", torch.zeros(width))

    def forward(self, x):
        for layer, scale in zip(self.layers, self.scales):
            x = x + scale * torch.tanh(layer(x))  # RAISES: 1
        if self.training:
            with torch.no_grad():
                self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)  # RAISES: 2
        return x


torch.manual_seed(0)
stack = ScaledStack(6, 3).to("cuda:0")
opt = torch.optim.Adam(stack.parameters(), lr=1e-2)
x = torch.randn(10, 6, device="cuda:0")
for _ in range(3):
    loss = (stack(x) - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(round(loss.item(), 4))
