"""Prefetching batches on a side stream: pinned memory, wait_stream and record_stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Prefetcher:
    def __init__(self, loader):
        self.it = iter(loader)
        self.stream = torch.cuda.Stream() if torch.cuda.is_available() else None
        self.pull()

    def move(self, batch):
        return [t.to(device, non_blocking=True) for t in batch]

    def pull(self):
        batch = next(self.it, None)
        if batch is None or self.stream is None:
            self.ready = None if batch is None else self.move(batch)
            return
        with torch.cuda.stream(self.stream):
            self.ready = self.move(batch)

    def __iter__(self):
        while self.ready is not None:
            if self.stream is not None:
                now = torch.cuda.current_stream()
                now.wait_stream(self.stream)
                for t in self.ready:
                    t.record_stream(now)
            batch = self.ready
            self.pull()
            yield batch


class Sines(torch.utils.data.Dataset):
    def __init__(self, n):
        gen = torch.Generator().manual_seed(n)
        self.freq = 1 + torch.randint(3, (n,), generator=gen)
        self.phase = 6.28 * torch.rand(n, 1, generator=gen)

    def __len__(self):
        return len(self.freq)

    def __getitem__(self, i):
        t = torch.linspace(0, 6.28, 24)
        return torch.sin(self.freq[i] * t + self.phase[i]), self.freq[i] - 1


def main():
    torch.manual_seed(3)
    loader = torch.utils.data.DataLoader(Sines(96), batch_size=24, shuffle=True, pin_memory=torch.cuda.is_available())
    net = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(32, 3)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(4):
        total = torch.zeros((), device=device)
        hits = torch.zeros((), dtype=torch.long, device=device)
        for x, y in Prefetcher(loader):
            out = net(x.unsqueeze(1))
            loss = F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
            hits += (out.argmax(1) == y).sum()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f} acc {hits.item() / 96:.3f}")


main()
