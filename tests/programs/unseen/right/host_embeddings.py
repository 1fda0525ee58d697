"""Click model whose big embedding table stays in host memory; only rows travel."""
import torch
from torch import nn


class HostTable(nn.Module):
    """Embedding bag kept on the CPU with its own sparse optimiser."""

    def __init__(self, rows, dim, compute):
        super().__init__()
        self.bag = nn.EmbeddingBag(rows, dim, mode="mean", sparse=True)
        self.compute = compute
        self.opt = torch.optim.SparseAdam(list(self.bag.parameters()), lr=2e-2)

    def forward(self, ids, offsets):
        return self.bag(ids, offsets).to(self.compute)


class Ranker(nn.Module):
    def __init__(self, dim, dense):
        super().__init__()
        self.cross = nn.Parameter(0.1 * torch.randn(dim, dense))
        self.top = nn.Sequential(nn.Linear(dim + dense + 1, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, emb, dense):
        inter = torch.einsum("bd,de,be->b", emb, self.cross, dense).unsqueeze(1)
        return self.top(torch.cat([emb, dense, inter], 1)).squeeze(1)


def log_rows(n, rows, g):
    sizes = torch.randint(1, 5, (n,), generator=g)
    ids = torch.randint(rows, (int(sizes.sum()),), generator=g)
    offsets = sizes.cumsum(0) - sizes
    dense = torch.rand(n, 3, generator=g)
    hot = torch.zeros(n).index_add_(0, torch.repeat_interleave(torch.arange(n), sizes), (ids < rows // 4).float())
    label = (hot / sizes + 0.3 * dense[:, 0] + 0.2 * torch.randn(n, generator=g) > 0.45).float()
    return ids, offsets, dense, label


def main():
    torch.manual_seed(66)
    g = torch.Generator().manual_seed(12)
    device = torch.device("cuda")
    table = HostTable(300, 8, compute=device)
    ranker = Ranker(8, 3).to(device)
    opt = torch.optim.AdamW(ranker.parameters(), lr=1e-2)
    for it in range(30):
        ids, offsets, dense, label = log_rows(64, 300, g)
        logit = ranker(table(ids, offsets), dense.to(device))
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label.to(device))
        opt.zero_grad()
        table.opt.zero_grad()
        loss.backward()
        opt.step()
        table.opt.step()
        if it % 10 == 9:
            acc = ((logit.detach().cpu() > 0) == (label > 0.5)).float().mean()
            print(it + 1, f"{loss.item():.4f} {acc.item():.3f}", table.bag.weight.device.type == "cpu")


main()
