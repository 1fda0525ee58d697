"""Training loop with mixup, label smoothing and loss-based curriculum weights."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Indexed(Dataset):
    def __init__(self, n):
        self.x = torch.sin(torch.arange(n * 5.0) * 0.7).view(n, 5)
        self.y = (self.x[:, 0] > 0).long() * 2 + (self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i], self.y[i]


class Curriculum:
    """Remembers the last loss of every sample and weights the hard ones up."""

    def __init__(self, n, device):
        self.loss = torch.ones(n, device=device)

    def weight(self, idx):
        w = self.loss[idx]
        return w / w.mean()

    def record(self, idx, values):
        self.loss[idx] = values


def smooth_one_hot(y, classes, eps=0.1):
    out = torch.full((len(y), classes), eps / classes)  # BUG 3: any culprit=out
    # FIX: out = torch.full((len(y), classes), eps / classes, device=y.device)
    out.scatter_add_(1, y[:, None], torch.full((len(y), 1), 1 - eps, device=y.device))  # RAISES: 3
    return out


def mixup(x, t, lam):
    perm = torch.arange(len(x) - 1, -1, -1)
    return lam * x + (1 - lam) * x[perm], lam * t + (1 - lam) * t[perm]


def soft_cross_entropy(logits, t):
    return -(t * logits.log_softmax(1)).sum(1)


def main():
    torch.manual_seed(14)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ds = Indexed(40)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    cur = Curriculum(len(ds), device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    hits = torch.zeros(4)  # ALSO: 1
    for epoch in range(4):
        for idx, x, y in DataLoader(ds, batch_size=8):
            x, y = x.to(device), y.to(device)
            mx, mt = mixup(x, smooth_one_hot(y, 4), 0.8)
            per_sample = soft_cross_entropy(model(mx), mt)
            loss = (per_sample * cur.weight(idx)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            cur.record(idx, per_sample.detach())
            ok = model(x).argmax(1) == y
            hits.index_add_(0, y, ok.float())  # BUG 1: any culprit=hits # RAISES: 1
            # FIX: hits.index_add_(0, y.cpu(), ok.float().cpu())
    ranked = cur.loss.argsort(descending=True)[:3]  # ALSO: 2
    hard = ds.x[ranked]  # BUG 2: any culprit=ranked # RAISES: 2
    # FIX: hard = ds.x[ranked.cpu()]
    print("%.4f" % loss.item(), hits.sum().item(), "%.4f" % hard.abs().mean().item())


if __name__ == "__main__":
    main()
