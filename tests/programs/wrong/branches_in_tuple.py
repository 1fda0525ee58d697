from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Inception(nn.Module):
    """Parallel convolutions of different widths, joined along the channels."""

    branches: tuple[nn.Conv2d, ...]

    def __init__(self, channels: int, widths: tuple[int, ...] = (1, 3, 5)) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(len(widths) * channels, channels, 1)
        self.branches = tuple(nn.Conv2d(3, channels, w, padding=w // 2) for w in widths)  # BUG: plain-container culprit=net.branches[0].weight|net.block.branches[0].weight
        # FIX: self.branches = nn.ModuleList(nn.Conv2d(3, channels, w, padding=w // 2) for w in widths)

    def forward(self, image: Tensor) -> Tensor:
        maps = [F.relu(branch(image)) for branch in self.branches]  # RAISES: 1
        return self.reduce(torch.cat(maps, dim=1))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Inception(4)
        self.fc = nn.Linear(4, 2)

    def forward(self, image: Tensor) -> Tensor:
        return self.fc(self.block(image).mean(dim=(2, 3)))


def train(net: nn.Module, images: Tensor, labels: Tensor, steps: int) -> list[float]:
    history: list[float] = []
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        loss = F.cross_entropy(net(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


torch.manual_seed(0)
device: torch.device = torch.device("cuda", 0)
net = Net().to(device)
history = train(net, torch.rand(4, 3, 8, 8, device=device), torch.tensor([0, 1, 1, 0], device=device), steps=2)
print(["%.3f" % h for h in history])
