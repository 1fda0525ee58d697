# Semi-supervised FixMatch: labelled loader + endless unlabelled loader
import itertools
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def weak(x):
    return x * 1.01


def strong(x):
    return x + 0.1 * torch.sin(20 * x)


def loaders():
    x = torch.sin(torch.arange(200.0) * 0.77).view(50, 4)
    y = (x[:, 0] > x[:, 1]).long()
    lab = TensorDataset(x[:10], y[:10])
    unlab = TensorDataset(x[10:])
    return DataLoader(lab, batch_size=5), DataLoader(unlab, batch_size=10), (x, y)


def pseudo_loss(model, u, threshold=0.55):
    with torch.no_grad():
        p = model(weak(u)).softmax(1)  # RAISES: 2
        conf, guess = p.max(1)
        mask = (conf > threshold).float()
    return (F.cross_entropy(model(strong(u)), guess, reduction="none") * mask).mean(), mask.mean()


class DistributionAlign:
    def __init__(self, classes, momentum=0.9):
        self.p = torch.full((classes,), 1.0 / classes)  # BUG: any culprit=self.p
        # FIX: self.p = torch.full((classes,), 1.0 / classes, device=device)
        self.m = momentum

    def __call__(self, probs):
        self.p = self.m * self.p + (1 - self.m) * probs.detach().mean(0)  # RAISES: 1
        q = probs / self.p
        return q / q.sum(1, keepdim=True)


torch.manual_seed(2)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2)).to(device)
align = DistributionAlign(2)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
lab, unlab, (X, Y) = loaders()
stream = itertools.cycle(unlab)
for epoch in range(4):
    for x, y in lab:
        x, y = x.to(device), y.to(device)
        (u,) = next(stream)  # BUG: any culprit=u
        # FIX: (u,) = next(stream)
        # FIX: u = u.to(device)
        sup = F.cross_entropy(model(x), y)
        uns, used = pseudo_loss(model, u)
        ent = -(align(model(x).softmax(1)) * model(x).log_softmax(1)).sum(1).mean()
        loss = sup + uns + 0.1 * ent
        opt.zero_grad()
        loss.backward()
        opt.step()
with torch.no_grad():
    acc = (model(X.to(device)).argmax(1).cpu() == Y).float().mean()
print("%.4f %.3f %.2f" % (loss.item(), acc.item(), used.item()))
