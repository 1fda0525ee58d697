"""Prefetching loader: pins batches on the host and copies them on a side stream."""
import torch
import torch.nn as nn


class Batch:
    def __init__(self, x, y, weight):
        self.x, self.y, self.weight = x, y, weight

    def pin_memory(self):
        return Batch(self.x.pin_memory(), self.y.pin_memory(), self.weight.pin_memory())  # RAISES: 1

    def to(self, device, non_blocking=False):
        return Batch(
            self.x.to(device, non_blocking=non_blocking),
            self.y.to(device, non_blocking=non_blocking),
            self.weight,  # BUG 2: any culprit=batch.weight
            # FIX: self.weight.to(device, non_blocking=non_blocking),
        )


class Prefetcher:
    def __init__(self, source, device):
        self.source = iter(source)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.ready = None
        self.preload()

    def preload(self):
        host = next(self.source, None)
        if host is None:
            self.ready = None
            return
        with torch.cuda.stream(self.stream):
            self.ready = host.pin_memory().to(self.device, non_blocking=True)

    def __iter__(self):
        while self.ready is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            batch = self.ready
            self.preload()
            yield batch


def source(n, importance):
    for i in range(n):
        x = torch.cos(torch.arange(32.0) + i).view(8, 4)
        yield Batch(x, x.sum(1, keepdim=True), importance[(torch.arange(8) + i) % 16])


def main():
    torch.manual_seed(90)
    device = torch.device("cuda:1")
    importance = torch.linspace(0.5, 1.5, 16).to(device)  # BUG 1: any culprit=importance
    # FIX: importance = torch.linspace(0.5, 1.5, 16)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    for batch in Prefetcher(source(10, importance), device):
        err = (net(batch.x) - batch.y).squeeze(1).square()
        loss = (err * batch.weight).mean()  # RAISES: 2
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{loss.item():.4f}")


main()
