# compare: close
# devices: 1
"""A graph neural network in plain PyTorch: message passing by index_select, index_add, scatter_reduce and segment softmax."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph:
    """A bag of tensors with its own .to(), as graph libraries write it."""

    def __init__(self, x, edges, y, batch):
        self.x, self.edges, self.y, self.batch = x, edges, y, batch

    def to(self, device, non_blocking=False):
        return Graph(*(getattr(self, k).to(device, non_blocking=non_blocking) for k in ("x", "edges", "y", "batch")))

    @property
    def num_nodes(self):
        return self.x.size(0)


def segment_softmax(score, index, size):
    high = score.new_full((size,), float("-inf")).scatter_reduce(0, index, score, reduce="amax", include_self=True)
    score = (score - high[index]).exp()
    total = score.new_zeros(size).scatter_add(0, index, score)
    return score / (total[index] + 1e-12)


class GraphAttention(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.lin = nn.Linear(inside, outside, bias=False)
        self.att = nn.Parameter(torch.empty(2 * outside))
        self.bias = nn.Parameter(torch.zeros(outside))
        nn.init.uniform_(self.att, -0.1, 0.1)

    def forward(self, graph, x):
        source, target = graph.edges
        h = self.lin(x)
        score = F.leaky_relu(torch.cat([h[source], h[target]], dim=1) @ self.att, 0.2)
        alpha = segment_softmax(score, target, graph.num_nodes)
        out = torch.zeros_like(h).index_add_(0, target, h.index_select(0, source) * alpha.unsqueeze(1))
        return out + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GraphAttention(4, 16), GraphAttention(16, 16)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(32, 2)

    def forward(self, graph):
        x = graph.x
        for conv in self.convs:
            x = F.elu(conv(graph, x))
        x = self.norm(x)
        groups = int(graph.batch.max()) + 1
        index = graph.batch.unsqueeze(1).expand_as(x)
        mean = x.new_zeros(groups, 16).scatter_reduce(0, index, x, reduce="mean", include_self=False)
        top = x.new_full((groups, 16), -1e9).scatter_reduce(0, index, x, reduce="amax")
        return self.head(torch.cat([mean, top], dim=1))


def synthetic(graphs=12):
    xs, edges, ys, batch, offset = [], [], [], [], 0
    for g in range(graphs):
        n = 5 + g % 4
        pairs = torch.combinations(torch.arange(n)).T if g % 2 else torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        edges.append(torch.cat([pairs, pairs.flip(0)], dim=1) + offset)
        xs.append(torch.rand(n, 4))
        ys.append(g % 2)
        batch += [g] * n
        offset += n
    return Graph(torch.cat(xs), torch.cat(edges, dim=1), torch.tensor(ys), torch.tensor(batch))


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
graph = synthetic().to(device, non_blocking=True)
model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(8):
    logits = model(graph)
    loss = F.cross_entropy(logits, graph.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
degree = torch.bincount(graph.edges[1], minlength=graph.num_nodes)
assert degree.device.type == device.type
print("degrees", degree[:6].tolist(), "edges", graph.edges.size(1))
