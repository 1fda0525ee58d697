"""Metric learning: a margin schedule, a gallery on the side, evaluation in another function than training."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Margin:
    def __init__(self, start, end, steps):
        self.values = torch.linspace(start, end, steps)

    def at(self, step):
        return self.values[min(step, len(self.values) - 1)].item()


def to_device(obj, device):
    if torch.is_tensor(obj):
        return obj.to(device)
    if isinstance(obj, dict):
        return {key: to_device(value, device) for key, value in obj.items()}
    return [to_device(value, device) for value in obj]


def train_epoch(net, loader, opt, margin, device):
    net.train()
    for step, batch in enumerate(loader):
        anchor, positive, negative = to_device(batch, device)
        loss = F.triplet_margin_loss(net(anchor), net(positive), net(negative), margin=margin.at(step))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def evaluate(net, loader, gallery, labels, device):
    net.eval()
    hits = torch.zeros((), device=device)
    for queries, wanted in loader:  # ALSO: 1
        queries = to_device(queries, device)
        nearest = torch.cdist(net(queries), net(gallery)).argmin(1)
        hits += (labels[nearest] == wanted).sum()  # BUG: batch-not-moved culprit=wanted  # RAISES: 1  # ALSO: 1
        # FIX: hits += (labels[nearest] == wanted.to(device)).sum()
    return hits.item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    triplets = TensorDataset(*(torch.randn(12, 6) for _ in range(3)))
    print(train_epoch(net, DataLoader(triplets, batch_size=4), opt, Margin(0.1, 1.0, 3), device) >= 0)
    gallery, labels = torch.randn(5, 6, device=device), torch.arange(5, device=device)
    queries = TensorDataset(torch.randn(8, 6), torch.randint(0, 5, (8,)))
    print(evaluate(net, DataLoader(queries, batch_size=4), gallery, labels, device) >= 0)


if __name__ == "__main__":
    main()
