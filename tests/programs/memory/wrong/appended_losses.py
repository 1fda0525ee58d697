"""An evaluation with gradients on, whose losses are kept as tensors: each keeps the graph behind it."""

import torch
from torch import nn


def evaluate(model, batches):
    losses = []
    for step in range(batches):
        x = torch.full((512, 1024), step / batches, device="cuda")
        loss = model(x).square().mean()  # RAISES: 1
        losses.append(loss)  # BUG: out-of-memory culprit=losses
        # FIX: losses.append(loss.detach())
    print(len(losses), float(losses[0]) >= 0)


def main():
    torch.manual_seed(0)
    model = nn.Linear(1024, 1024).cuda()
    evaluate(model, 60)


main()
