"""Per-sample losses, weighted at the moment of backward."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1, device="cuda")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(6, 3, device="cuda"), torch.ones(6, device="cuda")
importance = torch.tensor([1.0, 1.0, 2.0, 0.5, 0.5, 1.0])  # BUG: default-device|gradient culprit=importance
# FIX: importance = torch.tensor([1.0, 1.0, 2.0, 0.5, 0.5, 1.0], device="cuda")
for _ in range(2):
    losses = nn.functional.mse_loss(net(x).squeeze(1), y, reduction="none")
    opt.zero_grad()
    losses.backward(importance / importance.sum())  # RAISES: 1
    opt.step()
    print(round(losses.mean().item(), 4))
