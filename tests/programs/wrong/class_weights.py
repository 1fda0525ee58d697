"""Imbalanced data: rare classes weigh more."""

import torch
from torch import nn


def inverse_frequency(labels, classes):
    counts = torch.bincount(labels, minlength=classes).float()
    return counts.sum() / (classes * counts.clamp(min=1))


torch.manual_seed(0)
device = torch.device("cuda")
inputs = torch.randn(40, 6)
labels = torch.tensor([0] * 30 + [1] * 8 + [2] * 2)
rare = (labels == 2).float().unsqueeze(1)

trunk = nn.Linear(6, 8).to(device)
classify = nn.Linear(8, 3).to(device)
detect = nn.Linear(8, 1).to(device)

weights = inverse_frequency(labels, 3)
ce = nn.CrossEntropyLoss(weight=weights)  # BUG: loss-weight culprit=ce.weight|weights
# FIX: ce = nn.CrossEntropyLoss(weight=weights).to(device)
bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([19.0, 1.0])[:1])  # BUG: loss-weight culprit=bce.pos_weight
# FIX: bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([19.0, 1.0])[:1].to(device))

parameters = [*trunk.parameters(), *classify.parameters(), *detect.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.05)
inputs, labels, rare = inputs.to(device), labels.to(device), rare.to(device)
for step in range(3):
    features = torch.relu(trunk(inputs))
    loss = ce(classify(features), labels)  # RAISES: 1
    loss = loss + bce(detect(features), rare)  # RAISES: 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
