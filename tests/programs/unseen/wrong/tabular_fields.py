"""Click model on categorical and numeric columns: nested batches, class weights, confusion table."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CARDS = [5, 7, 3]


class Clicks(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.cat = np.stack([rng.integers(0, c, n) for c in CARDS], 1)
        self.num = rng.normal(size=(n, 2)).astype(np.float32)
        score = (self.cat[:, 0] == 2) * 1.5 + self.num[:, 0] - 0.8 * (self.cat[:, 2] == 1) - 0.7
        self.y = (score > 0).astype(np.int64) + (score > 1.2)
        self.age = rng.uniform(0, 3, n).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"cat": self.cat[i], "num": self.num[i], "y": self.y[i], "age": self.age[i]}

    def class_weights(self):
        count = np.bincount(self.y, minlength=3)
        return torch.tensor(len(self.y) / (3.0 * count), dtype=torch.float32)


def collate(rows):
    stack = lambda key: torch.from_numpy(np.stack([r[key] for r in rows]))
    return {"inputs": {"cat": stack("cat"), "num": stack("num")}, "y": stack("y"), "extra": [stack("age"), len(rows)]}


def to_device(obj, device):
    if torch.is_tensor(obj):
        return obj.to(device)
    if isinstance(obj, dict):
        return {k: to_device(v, device) for k, v in obj.items()}
    return obj  # BUG: any
    # FIX: return [to_device(v, device) for v in obj] if isinstance(obj, list) else obj


class FieldEmbedding(nn.Module):
    def __init__(self, cards, dim):
        super().__init__()
        self.table = nn.Embedding(sum(cards), dim)
        self.start = torch.tensor([0, *np.cumsum(cards)[:-1].tolist()])  # BUG: any culprit=self.start
        # FIX: self.register_buffer("start", torch.tensor([0, *np.cumsum(cards)[:-1].tolist()]))

    def forward(self, cat):
        return self.table(cat + self.start)  # RAISES: 2


class ClickNet(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.fields = FieldEmbedding(CARDS, dim)
        self.mlp = nn.Sequential(nn.Linear(dim * len(CARDS) + 2, 24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, cat, num):
        e = self.fields(cat)
        pair = (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        return self.mlp(torch.cat([e.flatten(1), num], 1)) + 0.01 * pair


class Confusion:
    def __init__(self, n):
        self.table = torch.zeros(n, n, dtype=torch.long)

    def add(self, y, pred):
        self.table.index_put_((y, pred), torch.ones_like(y), accumulate=True)  # RAISES: 4

    def macro_recall(self):
        t = self.table.float()
        return (t.diag() / t.sum(1).clamp(min=1)).mean().item()


def run_epoch(net, loader, device, weight, opt):
    seen, total = Confusion(3), 0.0
    for batch in loader:
        batch = to_device(batch, device)
        age, n = batch["extra"]
        out = net(**batch["inputs"])
        each = F.cross_entropy(out, batch["y"], weight=weight, reduction="none")  # RAISES: 3
        loss = (each * torch.exp(-0.3 * age)).sum() / n  # RAISES: 1
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen.add(batch["y"], out.argmax(1))  # BUG 4: any culprit=self.table|seen
        # FIX: seen.add(batch["y"].cpu(), out.argmax(1).cpu())
        total += loss.item()
    return total / len(loader), seen.macro_recall()


def main():
    torch.manual_seed(23)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Clicks(192, seed=3)
    loader = DataLoader(data, batch_size=48, shuffle=True, collate_fn=collate)
    net = ClickNet().to(device)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.05)
    weight = data.class_weights()  # BUG 3: any culprit=weight
    # FIX: weight = data.class_weights().to(device)
    for epoch in range(5):
        loss, recall = run_epoch(net, loader, device, weight, opt)
        print(f"epoch {epoch} loss {loss:.4f} recall {recall:.3f}")


main()
