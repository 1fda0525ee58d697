import argparse
from typing import Iterable, NamedTuple
import torch
from torch import nn


class Sample(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
    w: torch.Tensor

    def to(self, device):
        return Sample(*(t.to(device) for t in self))


class Trainer:
    loss_fn = staticmethod(nn.functional.cross_entropy)

    def __init__(self, model: nn.Module, device: torch.device, accumulate: int = 2):
        self.model, self.device, self.accumulate = model.to(device), device, accumulate
        self.opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 10)
        self.running = torch.zeros((), device=device)

    def compute(self, s: Sample) -> torch.Tensor:
        return (self.loss_fn(self.model(s.x), s.y, reduction="none") * s.w).mean()

    def fit(self, data: Iterable[Sample]) -> float:
        for i, sample in enumerate(data, 1):
            loss = self.compute(sample.to(self.device)) / self.accumulate
            loss.backward()
            self.running += loss.detach()
            if i % self.accumulate == 0:
                self.opt.step()
                self.opt.zero_grad()
                self.sched.step()
        return self.running.item() / i


class SmoothTrainer(Trainer):
    def compute(self, s):
        logits = self.model(s.x)
        uniform = torch.full_like(logits, 1 / logits.size(1))
        return super().compute(s) + 0.1 * nn.functional.kl_div(logits.log_softmax(1), uniform, reduction="batchmean")


def stream(n):
    for i in range(n):
        x = torch.sin(torch.arange(24.0) + i).view(8, 3)
        yield Sample(x, (x[:, 0] > 0).long(), torch.linspace(0.5, 1.5, 8))


ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = ap.parse_args([])
for cls in (Trainer, SmoothTrainer):
    torch.manual_seed(0)
    print(cls.__name__, "%.4f" % cls(nn.Linear(3, 2), torch.device(args.device)).fit(stream(8)))
