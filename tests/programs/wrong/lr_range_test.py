"""A learning-rate range test that keeps the initial state in memory and restores it, as a class."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sines(Dataset):
    def __init__(self, n):
        self.x = torch.linspace(0, 6.28, n)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i : i + 1], "y": self.x[i : i + 1].sin(), "w": torch.ones(1) * (i % 3)}


class LRFinder:
    def __init__(self, model, optimizer, criterion, device):
        self.model, self.optimizer, self.criterion, self.device = model, optimizer, criterion, device
        self.saved = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
        self.history = {"lr": [], "loss": []}

    def _step(self, batch):
        x = batch["x"].to(self.device)
        y = batch["y"].to(self.device)
        w = batch["w"]  # BUG: batch-not-moved culprit=batch["w"]|w
        # FIX: w = batch["w"].to(self.device)
        loss = (self.criterion(self.model(x), y) * w).mean()  # RAISES: 1
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def range_test(self, loader, end_lr=1.0, num_iter=4):
        batches = iter(loader)
        for it in range(num_iter):
            for group in self.optimizer.param_groups:
                group["lr"] *= (end_lr / 1e-3) ** (1 / num_iter)
            self.history["loss"].append(self._step(next(batches)))  # ALSO: 1
            self.history["lr"].append(self.optimizer.param_groups[0]["lr"])

    def reset(self):
        self.model.load_state_dict(self.saved[0])
        self.optimizer.load_state_dict(self.saved[1])


torch.manual_seed(0)
device = torch.device("cuda", 0)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
finder = LRFinder(model, torch.optim.Adam(model.parameters(), lr=1e-3), nn.MSELoss(reduction="none"), device)
finder.range_test(DataLoader(Sines(32), batch_size=8))
finder.reset()
print(len(finder.history["loss"]))
