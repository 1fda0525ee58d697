from collections import defaultdict
import numpy as np
import torch
import torch.nn.functional as F


class Meter:
    """Everything is kept on the host."""

    def __init__(self, classes):
        self.conf = torch.zeros(classes, classes, dtype=torch.long)
        self.sums = defaultdict(float)
        self.scores, self.targets = [], []

    def update(self, logits, y, **extra):
        logits, y = logits.detach().cpu(), y.cpu()
        n = self.conf.size(0)
        self.conf += torch.bincount(y * n + logits.argmax(1), minlength=n * n).view(n, n)
        self.scores.append(logits.softmax(1)[:, 1].numpy())
        self.targets.append(y.numpy())
        for k, v in extra.items():
            self.sums[k] += float(v)

    def auc(self):
        s, t = np.concatenate(self.scores), np.concatenate(self.targets)
        pos, neg = s[t == 1], s[t == 0]
        return float((pos[:, None] > neg[None]).mean())


torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(3, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
meter = Meter(2)
for i in range(8):
    x = torch.sin(torch.arange(30.0) * (i + 1)).view(10, 3).to(device)
    y = (x[:, 0] > 0).long()
    out = model(x)
    loss = F.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.update(out, y, loss=loss, norm=model.weight.norm())
print(meter.conf.tolist(), "%.3f" % meter.auc(), {k: round(v, 3) for k, v in meter.sums.items()})
