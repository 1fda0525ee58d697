# Matrix factorization with side features, implicit negatives and a ranking metric
import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("--gpu", type=int, default=0)
ap.add_argument("--dim", type=int, default=8)
args = ap.parse_args()

device = torch.device(f"cuda:{args.gpu}") if torch.cuda.is_available() else torch.device("cpu")
rng = np.random.RandomState(0)
torch.manual_seed(0)

N_USERS, N_ITEMS = 12, 15


class Clicks(Dataset):
    def __init__(self):
        self.pairs = [(u, (u * 3 + j) % N_ITEMS) for u in range(N_USERS) for j in range(4)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        u, pos = self.pairs[i]
        return {"user": u, "pos": pos, "neg": int(rng.randint(N_ITEMS))}


class MF(torch.nn.Module):
    def __init__(self, dim, popularity):
        super().__init__()
        self.user = torch.nn.Embedding(N_USERS, dim)
        self.item = torch.nn.Embedding(N_ITEMS, dim)
        self.popularity = torch.from_numpy(popularity).float()  # BUG: any culprit=self.popularity
        # FIX: self.register_buffer("popularity", torch.from_numpy(popularity).float())
        self.pop_gain = torch.nn.Parameter(torch.tensor(0.1))

    def score(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(-1)
        return dot + self.pop_gain * self.popularity[i]  # RAISES: 1

    def all_scores(self, u):
        return self.user(u) @ self.item.weight.t()


def bpr(pos, neg):
    return -torch.nn.functional.logsigmoid(pos - neg).mean()


@torch.no_grad()
def hit_rate(model, dataset, k=5):
    seen = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)  # ALSO: 2
    for u, i in dataset.pairs:
        seen[u, i] = True
    users = torch.arange(N_USERS, device=device)
    top = model.all_scores(users).topk(k, dim=1).indices
    hits = seen.gather(1, top)  # BUG: any culprit=seen # RAISES: 2
    # FIX: hits = seen.to(device).gather(1, top)
    return hits.float().mean().item()


pop = rng.rand(N_ITEMS)
ds = Clicks()
model = MF(args.dim, pop).to(device)
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
for epoch in range(4):
    for batch in DataLoader(ds, batch_size=16):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = bpr(model.score(batch["user"], batch["pos"]), model.score(batch["user"], batch["neg"]))
        opt.zero_grad()
        loss.backward()
        opt.step()
print("bpr %.4f hit %.3f" % (loss.item(), hit_rate(model, ds)))
