"""nn.DataParallel around a model that names its device."""

import torch
from torch import nn


class NoisyGate(nn.Module):
    def __init__(self, features, experts):
        super().__init__()
        self.gate = nn.Linear(features, experts)

    def forward(self, x):
        logits = self.gate(x)
        noise = torch.zeros(logits.shape, device="cuda:0")  # BUG: replica-pinned culprit=noise
        # FIX: noise = torch.zeros(logits.shape, device=logits.device)
        return torch.softmax(logits + noise, dim=-1)  # RAISES: 1


class Mixture(nn.Module):
    def __init__(self, features=6, experts=3):
        super().__init__()
        self.gate = NoisyGate(features, experts)
        self.experts = nn.ModuleList(nn.Linear(features, 1) for _ in range(experts))

    def forward(self, x):
        outputs = torch.cat([expert(x) for expert in self.experts], dim=1)
        return (self.gate(x) * outputs).sum(1)


torch.manual_seed(0)
model = nn.DataParallel(Mixture().cuda(), device_ids=[0, 1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6).cuda()
y = x.sum(1)
for _ in range(3):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
