"""Graph attention without a graph library: edge list, segment softmax, semi-supervised loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def ring_of_cliques(n_cliques=4, size=6):
    edges = []
    for c in range(n_cliques):
        base = c * size
        edges += [(base + i, base + j) for i in range(size) for j in range(size) if i != j]
        nxt = (base + size) % (n_cliques * size)
        edges += [(base, nxt), (nxt, base)]
    label = torch.arange(n_cliques).repeat_interleave(size)
    return torch.tensor(edges).t().contiguous(), label


def segment_softmax(score, seg, n):
    top = torch.full((n, score.shape[1]), float("-inf"))  # BUG: any culprit=top
    # FIX: top = torch.full((n, score.shape[1]), float("-inf"), device=score.device)
    top = top.scatter_reduce(0, seg.unsqueeze(1).expand_as(score), score.detach(), "amax")  # RAISES: 1
    e = (score - top[seg]).exp()
    total = torch.zeros_like(top).index_add(0, seg, e)
    return e / (total[seg] + 1e-9)


class GATLayer(nn.Module):
    def __init__(self, n_in, n_out, heads):
        super().__init__()
        self.heads, self.n_out = heads, n_out
        self.lin = nn.Linear(n_in, heads * n_out, bias=False)
        self.left = nn.Parameter(0.3 * torch.randn(heads, n_out))
        self.right = nn.Parameter(0.3 * torch.randn(heads, n_out))

    def forward(self, x, edges):
        src, dst = edges
        h = self.lin(x).view(-1, self.heads, self.n_out)  # RAISES: 2
        a = (h * self.left).sum(-1)[src] + (h * self.right).sum(-1)[dst]
        w = segment_softmax(F.leaky_relu(a, 0.2), dst, len(x))
        out = torch.zeros_like(h).index_add(0, dst, h[src] * w.unsqueeze(-1))
        return out.flatten(1)


class GAT(nn.Module):
    def __init__(self, n_in, hidden, n_classes, heads=2):
        super().__init__()
        self.layers = [GATLayer(n_in, hidden, heads), GATLayer(hidden * heads, n_classes, 1)]  # BUG: any culprit=self.layers
        # FIX: self.layers = nn.ModuleList([GATLayer(n_in, hidden, heads), GATLayer(hidden * heads, n_classes, 1)])
        self.skip = nn.Linear(n_in, n_classes)

    def all_parameters(self):
        seen = {id(p): p for p in self.parameters()}
        for layer in self.layers:
            seen.update({id(p): p for p in layer.parameters()})
        return list(seen.values())

    def forward(self, x, edges):
        first, second = self.layers
        h = F.elu(first(x, edges))
        return second(h, edges) + self.skip(x)


def split(label, per_class, gen):
    known = torch.zeros(len(label), dtype=torch.bool)
    for c in label.unique():
        at = (label == c).nonzero().squeeze(1)
        known[at[torch.randperm(len(at), generator=gen)[:per_class]]] = True
    return known


def degree_feature(edges, n):
    deg = torch.zeros(n).index_add(0, edges[1], torch.ones(edges.shape[1]))
    return (deg / deg.max()).unsqueeze(1)


def main():
    torch.manual_seed(6)
    gen = torch.Generator().manual_seed(6)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    edges, label = ring_of_cliques()
    known = split(label, 2, gen)  # ALSO: 3
    x = torch.cat([degree_feature(edges, len(label)), F.one_hot(label, 4) + 1.2 * torch.randn(len(label), 4, generator=gen)], 1)
    x, edges, label = x.to(device), edges.to(device), label.to(device)
    net = GAT(5, 8, 4).to(device)
    opt = torch.optim.Adam(net.all_parameters(), lr=1e-2)
    weight = known.float() / known.sum()  # BUG: any culprit=weight
    # FIX: weight = (known.float() / known.sum()).to(device)
    for epoch in range(20):
        out = net(x, edges)
        loss = (F.cross_entropy(out, label, reduction="none") * weight).sum()  # RAISES: 3
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 5 == 4:
            acc = (out.argmax(1) == label)[~known].float().mean()
            print(f"{epoch + 1} loss {loss.item():.4f} acc {acc.item():.3f}")


main()
