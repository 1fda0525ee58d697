"""`losses += [loss]`: the list keeps the graph of every step."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(24):
        loss = model(torch.full((512, 64), step / 24, device="cuda")).mean(0)
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses += [loss]  # BUG: memory-grows culprit=losses # RAISES: none
        # FIX: losses += [loss.detach()]
    print(len(losses))


main()
