"""Label smoothing and mixup with dense targets taken from the rows of an identity matrix."""

import torch
from torch import nn

NUM_CLASSES = 5


def smooth_targets(labels, smoothing=0.1):
    dense = torch.eye(NUM_CLASSES)[labels]  # BUG: default-device|index culprit=torch.eye(NUM_CLASSES)  # RAISES: 1
    # FIX: dense = torch.eye(NUM_CLASSES, device=labels.device)[labels]
    return dense * (1 - smoothing) + smoothing / NUM_CLASSES


def mixup(x, targets, alpha=0.4):
    lam = torch.distributions.Beta(alpha, alpha).sample((len(x), 1))  # BUG: default-device culprit=lam
    # FIX: lam = torch.distributions.Beta(alpha, alpha).sample((len(x), 1)).to(x.device)
    mixed = lam * x + (1 - lam) * x.flip(0)  # RAISES: 2  # ALSO: 2
    return mixed, lam * targets + (1 - lam) * targets.flip(0)  # ALSO: 2


torch.manual_seed(5)
device = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, NUM_CLASSES)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
features, labels = torch.randn(20, 4, device=device), torch.arange(20, device=device) % NUM_CLASSES

for step in range(3):
    inputs, targets = mixup(features, smooth_targets(labels))
    loss = nn.functional.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: {loss:.4f}")
