"""Two-tower retrieval with sampled negatives and popularity correction."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Clicks(Dataset):
    def __init__(self, n_users, n_items, n_rows, seed):
        g = torch.Generator().manual_seed(seed)
        self.users = torch.randint(n_users, (n_rows,), generator=g)
        taste = torch.randint(n_items, (n_users,), generator=g)
        jitter = torch.randint(-3, 4, (n_rows,), generator=g)
        self.items = (taste[self.users] + jitter) % n_items
        self.n_items = n_items

    def __len__(self):
        return len(self.users)

    def __getitem__(self, i):
        return int(self.users[i]), int(self.items[i])

    def popularity(self):
        counts = torch.bincount(self.items, minlength=self.n_items).float()
        return (counts + 1) / (counts.sum() + self.n_items)


class NegativeCollate:
    def __init__(self, n_items, k, seed):
        self.n_items, self.k = n_items, k
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self, rows):
        users = torch.tensor([u for u, _ in rows])
        items = torch.tensor([i for _, i in rows])
        negatives = torch.randint(self.n_items, (len(rows), self.k), generator=self.g)
        return {"user": users, "item": items, "neg": negatives}


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, user, candidates):
        u = self.proj(self.user(user)).unsqueeze(1)
        return (u * self.item(candidates)).sum(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--epochs", type=int, default=3)
    args = ap.parse_args()
    device = torch.device(args.device)
    torch.manual_seed(7)

    data = Clicks(60, 90, 600, seed=1)
    loader = DataLoader(data, batch_size=64, shuffle=True, collate_fn=NegativeCollate(90, 8, 2))
    log_q = data.popularity().log()  # BUG: any culprit=log_q
    # FIX: log_q = data.popularity().log().to(device)
    model = TwoTower(60, 90, 16).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)

    for epoch in range(args.epochs):
        total = 0.0
        for batch in loader:
            user = batch["user"].to(device)
            pos = batch["item"].to(device)
            neg = batch["neg"]  # BUG: any culprit=neg
            # FIX: neg = batch["neg"].to(device)
            candidates = torch.cat([pos.unsqueeze(1), neg], dim=1)  # RAISES: 2
            logits = model(user, candidates) - log_q[candidates]  # RAISES: 1
            target = torch.zeros(len(user), dtype=torch.long)  # BUG: any culprit=target
            # FIX: target = torch.zeros(len(user), dtype=torch.long, device=device)
            loss = F.cross_entropy(logits, target)  # RAISES: 3
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(user)
        print(f"epoch {epoch} loss {total / len(data):.4f}")


if __name__ == "__main__":
    main()
