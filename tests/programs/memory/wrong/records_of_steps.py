"""A record of each step in a tuple, with the loss and all that it was computed from."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for step in range(24):
        losses = model(torch.full((512, 64), step / 24, device="cuda")).square()
        worst = losses.max(dim=1).values
        optimizer.zero_grad()
        losses.mean().backward(retain_graph=True)
        optimizer.step()
        history.append((step, worst, optimizer.param_groups[0]["lr"]))  # BUG: memory-grows culprit=history # RAISES: none
        # FIX: history.append((step, worst.detach(), optimizer.param_groups[0]["lr"]))
    print(len(history), history[-1][1].shape)


main()
