# compare: exact
# devices: 1
"""DataLoader with workers of every start method, pinned memory, non_blocking copies and a collate of its own."""

from collections import namedtuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

Batch = namedtuple("Batch", "x y names")


class Squares(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        x = torch.full((4,), float(i) / 24)
        return {"x": x, "y": x.square().sum(), "name": f"item{i}"}


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        yield from (torch.tensor([float(i)]) for i in range(start, 12, step))


def collate(items):
    return Batch(torch.stack([i["x"] for i in items]), torch.stack([i["y"] for i in items]), [i["name"] for i in items])


def seed_worker(worker):
    torch.manual_seed(worker)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pin = device.type == "cuda"
    # "fork" comes first: after the device has been used, a forked child may not use it (these workers do not).
    for method in (None, "fork", "spawn", "forkserver"):
        torch.manual_seed(0)
        model = nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(
            Squares(), batch_size=8, collate_fn=collate, pin_memory=pin, num_workers=0 if method is None else 1,
            multiprocessing_context=method, worker_init_fn=seed_worker, drop_last=True,
            generator=torch.Generator().manual_seed(5), shuffle=True,
        )
        total, names = 0.0, []
        for batch in loader:
            assert batch.x.is_pinned() == pin and batch.x.device.type == "cpu"
            x, y = batch.x.to(device, non_blocking=True), batch.y.to(device, non_blocking=True)
            loss = (model(x).squeeze(1) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            names += batch.names
        print(method, f"{total:.6f}", len(names), names[:3])

    streamed = torch.cat([b.to(device) for b in DataLoader(Stream(), batch_size=3, num_workers=0, pin_memory=pin)])
    print("stream", streamed.flatten().tolist())
    sampler = WeightedRandomSampler([0.0, 1.0] * 12, 6, generator=torch.Generator().manual_seed(0))
    print("odd only", all(int(n[4:]) % 2 for b in DataLoader(Squares(), batch_size=2, sampler=sampler) for n in b["name"]))


if __name__ == "__main__":
    main()
