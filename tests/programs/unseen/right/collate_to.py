"""collate_fn that puts the batch on the device; nested structures."""
from dataclasses import dataclass, fields
import torch
from torch.utils.data import DataLoader


@dataclass
class Graphs:
    x: torch.Tensor
    batch: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return Graphs(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


def move(obj, device):
    if torch.is_tensor(obj):
        return obj.to(device)
    if isinstance(obj, dict):
        return {k: move(v, device) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(move(v, device) for v in obj)
    return obj


def make_collate(device):
    def collate(items):
        xs, ys = zip(*items)
        batch = torch.repeat_interleave(torch.arange(len(xs)), torch.tensor([len(x) for x in xs]))
        g = Graphs(torch.cat(xs), batch, torch.tensor(ys)).to(device)
        extra = move({"ids": (torch.arange(len(xs)), ["a", 1]), "n": len(xs)}, device)
        return g, extra
    return collate


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = [(torch.sin(torch.arange(n * 3.0)).view(n, 3), n % 2) for n in (2, 4, 3, 5, 1, 2)]
total = 0.0
for g, extra in DataLoader(data, batch_size=2, collate_fn=make_collate(device)):
    pooled = torch.zeros(extra["n"], 3, device=g.x.device).index_add_(0, g.batch, g.x)
    total += (pooled.sum(1) * g.y).sum().item() + extra["ids"][0].sum().item()
print(round(total, 4))
