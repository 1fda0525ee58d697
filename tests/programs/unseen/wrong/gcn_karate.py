"""Graph convolution written by hand on a planted-partition graph."""
import math

import torch
import torch.nn.functional as F
from torch.nn import Linear, Module, ModuleList

device = torch.device("cuda")


def planted_graph(n, classes, p_in, p_out, seed):
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % classes
    same = label[:, None] == label[None, :]
    prob = torch.where(same, p_in, p_out)
    upper = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1)
    return (upper | upper.T).float(), label


def normalise(adj):
    adj = adj + torch.eye(len(adj))  # BUG: any culprit=adj  # RAISES: 1
    # FIX: adj = adj + torch.eye(len(adj), device=adj.device)
    inv_sqrt = adj.sum(1).pow(-0.5)
    return inv_sqrt[:, None] * adj * inv_sqrt[None, :]


class GraphConv(Module):
    def __init__(self, propagate, fan_in, fan_out):
        super().__init__()
        self.propagate = propagate
        self.lin = Linear(fan_in, fan_out)

    def forward(self, h):
        return self.propagate @ self.lin(h)


class GCN(Module):
    def __init__(self, a_hat, sizes, drop=0.3):
        super().__init__()
        self.layers = ModuleList(GraphConv(a_hat, i, o) for i, o in zip(sizes, sizes[1:]))
        self.drop = drop

    def forward(self, h):
        for k, layer in enumerate(self.layers):
            h = layer(h)
            if k + 1 < len(self.layers):
                h = F.dropout(F.relu(h), self.drop, self.training)
        return h


def degree_features(adj, width):
    deg = adj.sum(1)
    freq = torch.exp(-math.log(50.0) * torch.arange(width) / width)  # BUG: any culprit=freq
    # FIX: freq = torch.exp(-math.log(50.0) * torch.arange(width, device=deg.device) / width)
    return torch.sin(deg[:, None] * freq)  # RAISES: 2


def main():
    torch.manual_seed(11)
    adj, label = planted_graph(80, 4, 0.35, 0.03, seed=5)
    adj = adj.to(device)
    label.to(device)  # BUG: any
    # FIX: label = label.to(device)
    model = GCN(normalise(adj), [80 + 8, 24, 4]).to(device)
    ident = torch.eye(80, device=device)
    x = torch.cat([ident, degree_features(adj, 8)], dim=1)

    train = torch.arange(80) < 24
    opt = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=1e-3)
    for epoch in range(40):
        model.train()
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits[train], label[train])  # RAISES: 3
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                hits = (model(x).argmax(1) == label)[~train]
            print(f"{epoch:3d} loss={loss.item():.4f} test={hits.float().mean().item():.3f}")


main()
