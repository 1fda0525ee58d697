"""Features smoothed on a sparse graph, label spreading and page rank."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph:
    def __init__(self, n, edges):
        both = torch.cat([edges, edges.flip(0), torch.arange(n).repeat(2, 1)], 1)
        self.n = n
        self.adj = torch.sparse_coo_tensor(both, torch.ones(both.shape[1]), (n, n)).coalesce()

    def normalised(self, power):
        """D^-p A D^(p-1)"""
        i, v = self.adj.indices(), self.adj.values().clamp(max=1.0)
        deg = torch.zeros(self.n, device=v.device).index_add_(0, i[0], v)
        v = v * deg[i[0]] ** -power * deg[i[1]] ** (power - 1)
        return torch.sparse_coo_tensor(i, v, (self.n, self.n)).coalesce()

    def to(self, device):
        self.adj.to(device)  # BUG: any culprit=self.adj
        # FIX: self.adj = self.adj.to(device)
        return self


def smooth(adj, x, hops):
    for _ in range(hops):
        x = torch.sparse.mm(adj, x)  # RAISES: 1
    return x


def spread_labels(adj, label, known, classes, rounds=8):
    hot = F.one_hot(label, classes).float()
    soft = torch.full_like(hot, 1 / classes)
    clamp = known.unsqueeze(1)
    for _ in range(rounds):
        soft = torch.where(clamp, hot, soft)  # RAISES: 2
        soft = torch.sparse.mm(adj, soft)
        soft = soft / soft.sum(1, keepdim=True)
    return soft.argmax(1)


def page_rank(adj, n, damping=0.85, rounds=10):
    rank = torch.full((n, 1), 1.0 / n)  # BUG 3: any culprit=rank
    # FIX: rank = torch.full((n, 1), 1.0 / n, device=adj.device)
    for _ in range(rounds):
        rank = (1 - damping) / n + damping * torch.sparse.mm(adj, rank)  # RAISES: 3
    return rank.squeeze(1)


def communities(n, classes, gen):
    label = torch.arange(n) % classes
    same = label.unsqueeze(0) == label.unsqueeze(1)
    p = torch.where(same, 0.25, 0.02)
    hit = (torch.rand(n, n, generator=gen) < p).triu(1)
    return hit.nonzero().t(), label


def main():
    torch.manual_seed(50)
    gen = torch.Generator().manual_seed(50)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n, classes = 60, 3
    edges, label = communities(n, classes, gen)
    known = torch.rand(n, generator=gen) < 0.25  # ALSO: 2
    x = (F.one_hot(label, classes) + 1.5 * torch.randn(n, classes, generator=gen)).to(device)
    graph = Graph(n, edges).to(device)
    y = label.to(device)

    feats = smooth(graph.normalised(0.5), x, hops=2)
    probe = nn.Linear(classes, classes).to(device)
    opt = torch.optim.SGD(probe.parameters(), lr=0.5)
    for step in range(15):
        loss = F.cross_entropy(probe(feats[known]), y[known])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 4:
            print(f"probe {step + 1} {loss.item():.4f}")

    guess = spread_labels(graph.normalised(1.0), y, known, classes)  # BUG 2: any culprit=known
    # FIX: guess = spread_labels(graph.normalised(1.0), y, known.to(device), classes)
    print(f"spread accuracy {(guess == y)[~known].float().mean().item():.3f}")
    rank = page_rank(graph.normalised(0.0), n)
    top = rank.topk(3)
    print(f"rank mass {rank.sum().item():.4f} top {[round(v, 4) for v in top.values.tolist()]}")


main()
