"""Segmentation of noisy 1-d signals; metrics accumulate on the host with numpy."""
import numpy as np
import torch
import torch.nn as nn


class ConfusionMeter:
    def __init__(self, k):
        self.k = k
        self.table = torch.zeros(k, k, dtype=torch.long)

    def update(self, logits, target):
        pred = logits.argmax(1).cpu()
        flat = target.cpu() * self.k + pred
        self.table += torch.bincount(flat.flatten(), minlength=self.k ** 2).view(self.k, self.k)

    def iou(self):
        t = self.table.numpy().astype(np.float64)
        hit = np.diag(t)
        return hit / np.maximum(t.sum(0) + t.sum(1) - hit, 1)


class Calibration:
    edges = torch.linspace(0, 1, 6)

    def __init__(self):
        self.count = torch.zeros(5)
        self.correct = torch.zeros(5)
        self.mass = torch.zeros(5)

    def update(self, logits, target):
        conf, pred = logits.softmax(1).max(1)
        conf, right = conf.flatten().cpu(), (pred == target).flatten().cpu().float()
        which = (torch.bucketize(conf, self.edges) - 1).clamp(0, 4)
        self.count.index_add_(0, which, torch.ones_like(conf))
        self.correct.index_add_(0, which, right)
        self.mass.index_add_(0, which, conf)

    def ece(self):
        used = self.count > 0
        gap = (self.correct[used] - self.mass[used]).abs()
        return (gap.sum() / self.count.sum()).item()


def signals(n, length, rng):
    xs, ys = [], []
    for _ in range(n):
        y = np.zeros(length, dtype=np.int64)
        for _ in range(3):
            start = rng.integers(0, length - 10)
            y[start:start + rng.integers(4, 10)] = rng.integers(1, 3)
        xs.append(np.choose(y, [0.0, 1.0, -1.0]) + 0.4 * rng.normal(size=length))
        ys.append(y)
    return torch.from_numpy(np.stack(xs)).float().unsqueeze(1), torch.from_numpy(np.stack(ys))


def main():
    torch.manual_seed(55)
    rng = np.random.default_rng(55)
    device = "cuda"
    x, y = signals(72, 48, rng)
    net = nn.Sequential(nn.Conv1d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv1d(12, 3, 5, padding=2)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    weight = torch.from_numpy(np.array([0.6, 1.2, 1.2], dtype=np.float32)).to(device)
    history = []
    for epoch in range(6):
        for lo in range(0, 48, 12):
            xb, yb = x[lo:lo + 12].to(device), y[lo:lo + 12].to(device)
            loss = nn.functional.cross_entropy(net(xb), yb, weight=weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(loss.detach().cpu())
    confusion, calibration = ConfusionMeter(3), Calibration()
    with torch.no_grad():
        for xb, yb in zip(x[48:].split(8), y[48:].split(8)):
            logits = net(xb.to(device))
            confusion.update(logits, yb)
            calibration.update(logits, yb.to(device))
    print("loss", np.round(torch.stack(history).numpy()[[0, 11, -1]], 4).tolist())
    print("iou", np.round(confusion.iou(), 4).tolist(), "ece", round(calibration.ece(), 4))


main()
