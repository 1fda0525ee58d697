"""Metrics accumulated over an evaluation."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Metric:
    def reset(self) -> None: ...
    def update(self, prediction: Tensor, target: Tensor) -> None: ...
    def compute(self) -> float: ...


class ConfusionMatrix(Metric):
    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.reset()

    def reset(self) -> None:
        self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long)  # BUG: default-device|plain-attribute culprit=metrics[0].matrix|metric.matrix|self.matrix
        # FIX: self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long, device="cuda")

    def update(self, prediction: Tensor, target: Tensor) -> None:
        cells = target * self.classes + prediction
        self.matrix += torch.bincount(cells, minlength=self.classes**2).view_as(self.matrix)  # RAISES: 1

    def compute(self) -> float:
        return (self.matrix.diag().sum() / self.matrix.sum()).item()


class MeanConfidence(Metric):
    def __init__(self) -> None:
        self.total, self.count = torch.zeros(1), 0  # BUG: default-device|plain-attribute culprit=metrics[1].total|metric.total|self.total
        # FIX: self.total, self.count = torch.zeros(1, device="cuda"), 0

    def update(self, prediction: Tensor, target: Tensor) -> None:
        hits = (prediction == target).float()
        self.total += hits.sum()  # RAISES: 2
        self.count += len(hits)

    def compute(self) -> float:
        return self.total.item() / self.count


torch.manual_seed(0)
model = nn.Linear(4, 3).cuda().eval()
metrics = [ConfusionMatrix(3), MeanConfidence()]
with torch.no_grad():
    for i in range(3):
        x, y = torch.randn(10, 4).cuda(), (torch.arange(10) % 3).cuda()
        prediction = model(x).argmax(-1)
        for metric in metrics:
            metric.update(prediction, y)
print([round(m.compute(), 3) for m in metrics])
