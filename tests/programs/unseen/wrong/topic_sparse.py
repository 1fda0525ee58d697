"""Label propagation and a sparse graph smoother over documents."""
import torch


class DocGraph:
    def __init__(self, pairs, n):
        i = torch.tensor(pairs).T
        i = torch.cat([i, i.flip(0)], dim=1)
        self.adj = torch.sparse_coo_tensor(i, torch.ones(i.shape[1]), (n, n)).coalesce()
        self.n = n

    def normalised(self):
        deg = torch.sparse.sum(self.adj, dim=1).to_dense().clamp(min=1)
        i, v = self.adj.indices(), self.adj.values()
        return torch.sparse_coo_tensor(i, v / deg[i[0]], self.adj.shape)


def propagate(adj, seeds, labels, classes, device, rounds=6, alpha=0.8):
    y0 = torch.zeros(adj.shape[0], classes, device=device)
    y0[seeds, labels] = 1.0
    y = y0
    for _ in range(rounds):
        y = alpha * torch.sparse.mm(adj, y) + (1 - alpha) * y0  # RAISES: 1
        y[seeds] = torch.eye(classes)[labels]  # BUG 2: any culprit=torch.eye(classes) # RAISES: 2
        # FIX: y[seeds] = torch.eye(classes, device=device)[labels]
    return y


class Smoother(torch.nn.Module):
    def __init__(self, vocab, topics):
        super().__init__()
        self.lin = torch.nn.Linear(vocab, topics)
        self.idf = None  # ALSO: 3

    def fit_idf(self, counts):
        self.idf = (len(counts) / (counts > 0).sum(0).clamp(min=1)).log()  # ALSO: 3

    def forward(self, counts):
        return self.lin(counts * self.idf)  # RAISES: 3


def main():
    torch.manual_seed(70)
    device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")
    graph = DocGraph([(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (3, 7), (0, 2)], 8)
    adj = graph.normalised()  # BUG 1: any culprit=adj
    # FIX: adj = graph.normalised().to(device)
    seeds, labels = torch.tensor([0, 7]), torch.tensor([0, 1])
    soft = propagate(adj, seeds, labels, 2, device)

    counts = (torch.arange(8 * 6).view(8, 6) * 5 % 7 - 3).clamp(min=0).float()
    net = Smoother(6, 2)
    net.fit_idf(counts)  # ALSO: 3
    net = net.to(device)  # BUG 3: any culprit=net.idf
    # FIX: net = net.to(device)
    # FIX: net.idf = net.idf.to(device)
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(net(counts.to(device)), soft.argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("%.4f" % loss.item(), [round(v, 3) for v in soft[:, 0].tolist()])


main()
