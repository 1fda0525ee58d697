"""Workers of a loader stay on the host: they index, augment and weigh there; the main process moves batches."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, get_worker_info


class Rows(Dataset):
    """Keeps its table on the host, whatever the model does; statistics come from the card once."""

    def __init__(self, n, mean, std):
        self.table = torch.sin(torch.arange(n * 6.0) * 0.17).view(n, 6)
        self.labels = (self.table[:, 0] * self.table[:, 3] > 0).long()
        self.mean, self.std = mean.cpu(), std.cpu()

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        info = get_worker_info()
        x = (self.table[i] - self.mean) / self.std
        if info is not None:
            x = x + 0.0 * info.id
        return x, self.labels[i], i


def collate(rows):
    x, y, i = zip(*rows)
    return {"x": torch.stack(x), "y": torch.stack(y), "index": torch.tensor(i)}


def move(batch, device):
    return {k: v if k == "index" else v.to(device, non_blocking=True) for k, v in batch.items()}


if __name__ == "__main__":
    torch.manual_seed(19)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    raw = torch.sin(torch.arange(32 * 6.0) * 0.17).view(32, 6)
    data = Rows(32, raw.mean(0), raw.std(0))
    weights = 1 / torch.bincount(data.labels).float()[data.labels]
    sampler = WeightedRandomSampler(weights, 24, generator=torch.Generator().manual_seed(4))
    loader = DataLoader(data, 8, sampler=sampler, num_workers=2, collate_fn=collate, pin_memory=device == "cuda")
    net = nn.Linear(6, 2)
    nn.init.constant_(net.weight, 0.1)
    nn.init.zeros_(net.bias)
    difficulty = torch.zeros(len(data))  # on the host, by index of the row
    net.to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    for epoch in range(3):
        for batch in loader:
            batch = move(batch, device)
            each = nn.functional.cross_entropy(net(batch["x"]), batch["y"], reduction="none")
            opt.zero_grad()
            each.mean().backward()
            opt.step()
            difficulty[batch["index"]] = each.detach().cpu()
        print(f"epoch {epoch} {each.mean().item():.4f} hardest {difficulty.topk(2).indices.tolist()}")
    # a table on the card takes indices from the host
    on_card = data.table.to(device)
    hard = on_card[difficulty.argsort(descending=True)[:4]]
    print(tuple(hard.shape), f"{hard.mean().item():.4f}")
