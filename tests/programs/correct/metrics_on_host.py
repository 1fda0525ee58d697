"""Running metrics: sums on the device, results fetched once; lists of Python numbers; a history on the CPU."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n

    @property
    def average(self):
        return self.sum / max(1, self.count)


torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(6, 3).to(device).eval()
meter, correct = AverageMeter(), 0
history = torch.zeros(4)
predictions = []
with torch.no_grad():
    for i, (x, y) in enumerate(DataLoader(TensorDataset(torch.randn(32, 6), torch.arange(32) % 3), batch_size=8)):
        x, y = x.to(device), y.to(device)
        logits = model(x)
        meter.update(nn.functional.cross_entropy(logits, y), len(x))
        correct += (logits.argmax(1) == y).sum()
        history[i] = logits.max()
        predictions.append(logits.argmax(1).cpu())
print(f"{meter.average:.4f}", correct.device, int(correct), torch.cat(predictions).shape, history.device)
