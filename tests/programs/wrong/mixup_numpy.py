"""Mixup with coefficients drawn by NumPy, one for each sample."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

rng = np.random.default_rng(0)


def mixup_data(x, y, alpha=0.4):
    lam = torch.from_numpy(rng.beta(alpha, alpha, size=x.size(0)).astype("float32"))  # BUG: batch-not-moved|default-device culprit=lam
    # FIX: lam = torch.from_numpy(rng.beta(alpha, alpha, size=x.size(0)).astype("float32")).to(x.device)
    index = torch.randperm(x.size(0))
    mixed = lam[:, None] * x + (1 - lam[:, None]) * x[index]  # RAISES: 1
    return mixed, y, y[index], lam


def mixup_criterion(pred, y_a, y_b, lam):
    return (lam * F.cross_entropy(pred, y_a, reduction="none") + (1 - lam) * F.cross_entropy(pred, y_b, reduction="none")).mean()


def run(epochs, device):
    torch.manual_seed(0)
    net = nn.Linear(5, 3).to(device)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = torch.randn(12, 5, device=device), torch.randint(0, 3, (12,), device=device)
    for _ in range(epochs):
        mixed, a, b, lam = mixup_data(inputs, targets)
        loss = mixup_criterion(net(mixed), a, b, lam)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return net


print(next(run(3, torch.device("cuda")).parameters()).shape)
