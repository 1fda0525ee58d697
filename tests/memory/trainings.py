"""Small trainings whose memory was measured on an H200 with PyTorch 2.11, in float32, three steps from a fresh process.
Prints one JSON line for each that is named: bytes of the model, after the steps, at the peak, and reserved."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from forking import figures, measure_each
from torch import nn
from torch.nn import functional as F

Training = tuple[nn.Module, torch.optim.Optimizer, Callable[[], torch.Tensor]]


def mlp() -> Training:
    """Three linear layers, Adam, batch 256."""
    model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()

    def loss() -> torch.Tensor:
        x, y = torch.randn(256, 784, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
        return F.cross_entropy(model(x), y)

    return model, torch.optim.Adam(model.parameters()), loss


def convolutions() -> Training:
    """Four convolutions with batch norms, SGD with momentum, batch 32."""
    parts: list[nn.Module] = []
    for channels, filters, stride in ((3, 64, 1), (64, 128, 2), (128, 256, 2), (256, 256, 1)):
        conv = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        parts += [conv, nn.BatchNorm2d(filters), nn.ReLU()]
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).cuda()

    def loss() -> torch.Tensor:
        x, y = torch.randn(32, 3, 64, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
        return F.cross_entropy(model(x), y)

    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loss


def autoencoder() -> Training:
    """Two convolutions and two transposed ones, RMSprop, batch 64."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1),
    ).cuda()  # fmt: skip

    def loss() -> torch.Tensor:
        x = torch.randn(64, 1, 64, 64, device="cuda")
        return F.mse_loss(model(x), x)

    return model, torch.optim.RMSprop(model.parameters()), loss


def measure(name: str) -> dict[str, int | str]:
    """Three steps."""
    torch.manual_seed(0)
    model, optimizer, loss = {"mlp": mlp, "convolutions": convolutions, "autoencoder": autoencoder}[name]()
    row: dict[str, int | str] = {"training": name, "model": torch.cuda.memory_allocated()}
    del model
    for _ in range(3):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return {**row, **figures()}


if __name__ == "__main__":
    measure_each(measure, sys.argv[1:])
