"""Message passing over batched molecules, scatter by hand, readout by graph."""
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Molecule(NamedTuple):
    atoms: Tensor
    edges: Tensor
    target: Tensor


class Batch:
    """Molecules side by side. `to` moves what the model reads."""

    def __init__(self, molecules: list[Molecule]):
        sizes = [len(m.atoms) for m in molecules]
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        self.atoms = torch.cat([m.atoms for m in molecules])
        self.edges = torch.cat([m.edges + o for m, o in zip(molecules, offsets)], 1)
        self.target = torch.stack([m.target for m in molecules])
        self.graph = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.n = len(sizes)

    def to(self, device):
        self.atoms = self.atoms.to(device)
        self.edges = self.edges.to(device)
        self.target = self.target.to(device)  # BUG 1: any culprit=batch.graph
        # ADD: self.graph = self.graph.to(device)
        return self  # ALSO: 1


def degree(index: Tensor, n: int) -> Tensor:
    out = torch.zeros(n)  # BUG: any culprit=out
    # FIX: out = torch.zeros(n, device=index.device)
    return out.scatter_add_(0, index, torch.ones_like(index, dtype=out.dtype))  # RAISES: 2


class Conv(nn.Module):
    def __init__(self, i: int, o: int):
        super().__init__()
        self.own, self.neighbors = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, h: Tensor, edges: Tensor, norm: Tensor) -> Tensor:
        src, dst = edges
        messages = self.neighbors(h)[src] * norm[src].unsqueeze(1)  # RAISES: 3
        return (self.own(h).index_add(0, dst, messages)).relu()


class Net(nn.Module):
    def __init__(self, kinds: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.convs = [Conv(width, width) for _ in range(2)]  # BUG 3: any culprit=weight
        # FIX: self.convs = nn.ModuleList([Conv(width, width) for _ in range(2)])
        self.head = nn.Linear(width, 1)

    def forward(self, b: Batch) -> Tensor:
        h = self.embed(b.atoms)
        norm = degree(b.edges[1], len(h)).clamp(min=1).rsqrt()
        for conv in self.convs:
            h = conv(h, b.edges, norm)
        pooled = h.new_zeros(b.n, h.shape[1]).index_add(0, b.graph, h)  # RAISES: 1
        return self.head(pooled).squeeze(1)


def rings(count: int) -> list[Molecule]:
    out = []
    for i in range(count):
        n = 3 + i % 4
        a = torch.arange(n)
        edges = torch.stack([torch.cat([a, (a + 1) % n]), torch.cat([(a + 1) % n, a])])
        out.append(Molecule((a + i) % 5, edges, torch.tensor(float(n) / 6)))
    return out


torch.manual_seed(31)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = Net(5, 8).to(device)
opt = torch.optim.Adam(net.parameters(), lr=0.02)
molecules = rings(12)
for epoch in range(4):
    total = 0.0
    for i in range(0, 12, 4):
        batch = Batch(molecules[i : i + 4]).to(device)
        loss = nn.functional.mse_loss(net(batch), batch.target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"{epoch} {total:.4f}")
