"""Ranking model; every index tensor lives on the host while the data stays on the card."""
import torch
from torch import nn

device = torch.device("cuda")


def make_queries(n_queries, docs, width):
    x = torch.randn(n_queries, docs, width)
    w = torch.randn(width)
    gain = (x @ w + 0.5 * torch.randn(n_queries, docs)).argsort(1).argsort(1)
    return x, gain.float() / docs


def pair_table(docs):
    """All ordered pairs, as host indices."""
    i, j = torch.triu_indices(docs, docs, offset=1)
    return i, j


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, 1))
        self.order = torch.tensor([2, 0, 1, 4, 3, 5, 7, 6])

    def forward(self, x):
        return self.net(x[..., self.order]).squeeze(-1)


def ranknet(score, gain, i, j):
    gap = score[:, i] - score[:, j]
    sign = torch.sign(gain[:, i] - gain[:, j])
    return nn.functional.softplus(-sign * gap).mean()


def ndcg(score, gain, k):
    discount = 1.0 / torch.log2(torch.arange(2, k + 2, device=score.device).float())
    top = gain.gather(1, score.topk(k, dim=1).indices)
    best = gain.topk(k, dim=1).values
    return ((top * discount).sum(1) / (best * discount).sum(1)).mean().item()


def main():
    torch.manual_seed(0)
    x, gain = (t.to(device) for t in make_queries(60, 10, 8))
    i, j = pair_table(10)
    held_out = torch.zeros(60, dtype=torch.bool)
    held_out[::5] = True
    train_rows = torch.arange(60)[~held_out]
    model = Scorer(8).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(6):
        for rows in train_rows[torch.randperm(len(train_rows))].split(16):
            loss = ranknet(model(x[rows]), gain[rows], i, j)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 2 == 1:
            with torch.no_grad():
                quality = ndcg(model(x[held_out]), gain[held_out], 5)
            print(epoch, f"{loss.item():.4f} {quality:.4f}")


main()
