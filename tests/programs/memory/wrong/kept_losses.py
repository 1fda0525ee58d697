"""A training that keeps its losses as tensors: the graphs behind them are spent, and stay."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    history = []
    for step in range(24):
        x = torch.full((4, 8), step / 24, device="cuda")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)  # BUG: memory-grows culprit=history # RAISES: none
        # FIX: history.append(loss.detach())
    print(len(history), history[-1].item() < history[0].item())


main()
