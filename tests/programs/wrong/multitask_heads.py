"""Several tasks, one trunk. Run with --tasks to choose them."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TASKS = {"colour": 3, "shape": 4}


class Objects(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(3)
        self.features = torch.randn(count, 8, generator=generator)
        self.targets = {name: torch.randint(0, n, (count,), generator=generator) for name, n in TASKS.items()}

    def __len__(self):
        return len(self.features)

    def __getitem__(self, i):
        return {"x": self.features[i], "targets": {name: t[i] for name, t in self.targets.items()}}


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.heads = {name: nn.Linear(16, TASKS[name]) for name in tasks}  # BUG: plain-container culprit=model.heads["colour"].weight
        # FIX: self.heads = nn.ModuleDict({name: nn.Linear(16, TASKS[name]) for name in tasks})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}  # RAISES: 1


def to_device(batch, device):
    moved = dict(batch)
    moved["x"] = batch["x"].to(device)
    moved["targets"] = batch["targets"]  # BUG: batch-not-moved culprit=batch["targets"]["colour"]|targets["colour"]
    # FIX: moved["targets"] = {name: t.to(device) for name, t in batch["targets"].items()}
    return moved


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", nargs="+", default=["colour", "shape"])
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = MultiTask(args.tasks).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for batch in DataLoader(Objects(32), batch_size=8):  # ALSO: 2
        batch = to_device(batch, device)  # ALSO: 2
        outputs = model(batch["x"])
        targets = batch["targets"]
        loss = sum(nn.functional.cross_entropy(outputs[name], targets[name]) for name in args.tasks)  # RAISES: 2  # ALSO: 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
