"""Everything is a generator: source, shuffle buffer, batching, transfer, mixup; the loop only consumes."""
import itertools
import random

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLASSES = 3


def source():
    for i in itertools.count():
        x = torch.sin(torch.arange(6.0) * (1 + i % CLASSES) + 0.2 * (i % 5))
        yield {"x": x, "y": i % CLASSES, "weight": 1.0 + (i % 4) * 0.25}


def shuffled(items, size, rng):
    buffer = list(itertools.islice(items, size))
    for item in items:
        j = rng.randrange(size)
        buffer[j], item = item, buffer[j]
        yield item


def batched(items, n):
    while True:
        rows = list(itertools.islice(items, n))
        yield {
            "x": torch.stack([r["x"] for r in rows]),
            "y": torch.tensor([r["y"] for r in rows]),
            "weight": torch.tensor([r["weight"] for r in rows]),
        }


def to_device(batches, keys=("x", "y")):  # BUG 1: any culprit=batch["weight"]
# FIX: def to_device(batches, keys=("x", "y", "weight")):
    for batch in batches:
        yield {k: v.to(DEVICE, non_blocking=True) if k in keys else v for k, v in batch.items()}  # ALSO: 1


def one_hot(y):
    return torch.eye(CLASSES)[y]  # BUG: any culprit=torch.eye(CLASSES) # RAISES: 2
    # FIX: return torch.eye(CLASSES, device=y.device)[y]


def mixed(batches, rng):
    for batch in batches:
        lam = 0.5 + 0.5 * rng.random()
        order = torch.arange(len(batch["x"])).flip(0)
        target = one_hot(batch["y"])
        batch["x"] = lam * batch["x"] + (1 - lam) * batch["x"][order]
        batch["target"] = lam * target + (1 - lam) * target[order]
        yield batch


class Swa:
    """Averages weights as they come; the average is made of tensors that nobody trains."""

    def __init__(self):
        self.n, self.mean = 0, None

    def send(self, model):
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        if self.mean is None:
            self.mean = torch.zeros(flat.numel())  # BUG: any culprit=self.mean
            # FIX: self.mean = torch.zeros_like(flat)
        self.n += 1
        self.mean.add_(flat - self.mean, alpha=1 / self.n)  # RAISES: 3

    def load(self, model):
        nn.utils.vector_to_parameters(self.mean, model.parameters())


def train(model, batches, steps):
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    swa = Swa()
    for step, batch in zip(range(steps), batches):
        each = -(batch["target"] * model(batch["x"]).log_softmax(1)).sum(1)
        loss = (each * batch["weight"]).sum() / batch["weight"].sum()  # RAISES: 1
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step >= steps // 2:
            swa.send(model)
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    swa.load(model)
    return model


def main():
    torch.manual_seed(3)
    rng = random.Random(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, CLASSES)).to(DEVICE)
    stream = mixed(to_device(batched(shuffled(source(), 12, rng), 8)), rng)
    train(model, stream, 13)
    hold = list(itertools.islice(batched(source(), 15), 1))[0]
    with torch.no_grad():
        loss = F.cross_entropy(model(hold["x"].to(DEVICE)), hold["y"])  # BUG: any culprit=hold["y"] # RAISES: 4
        # FIX: loss = F.cross_entropy(model(hold["x"].to(DEVICE)), hold["y"].to(DEVICE))
    print(f"held out {loss.item():.4f}")


main()
