import torch
import torch.nn.functional as F
from torch import nn


class GraphBatch:
    def __init__(self, x, edge_index, batch):
        self.x, self.edge_index, self.batch = x, edge_index, batch

    @classmethod
    def from_list(cls, graphs):
        xs, es, bs, off = [], [], [], 0
        for i, (x, e) in enumerate(graphs):
            xs.append(x)
            es.append(e + off)
            bs.append(torch.full((len(x),), i))
            off += len(x)
        return cls(torch.cat(xs), torch.cat(es, 1), torch.cat(bs))

    def to(self, device):
        for k, v in vars(self).items():
            setattr(self, k, v.to(device))
        return self


class GIN(nn.Module):
    def __init__(self, d, h, classes):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(2))
        self.mlps = nn.ModuleList([nn.Linear(d, h), nn.Linear(h, h)])
        self.out = nn.Linear(h, classes)

    def forward(self, g):
        h = g.x
        src, dst = g.edge_index
        for eps, mlp in zip(self.eps, self.mlps):
            agg = torch.zeros_like(h).index_add(0, dst, h[src])
            h = mlp((1 + eps) * h + agg).relu()
        n = int(g.batch.max()) + 1
        return self.out(h.new_zeros(n, h.size(1)).index_add(0, g.batch, h))


torch.manual_seed(25)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ring = lambda n: (torch.ones(n, 2), torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]))
star = lambda n: (torch.ones(n, 2), torch.stack([torch.arange(1, n), torch.zeros(n - 1, dtype=torch.long)]))
g = GraphBatch.from_list([ring(4), star(5), ring(6), star(3)]).to(dev)
y = torch.tensor([0, 1, 0, 1], device=dev)
net = GIN(2, 8, 2).to(dev)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(10):
    loss = F.cross_entropy(net(g), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("%.4f" % loss.item(), net(g).argmax(1).tolist())
