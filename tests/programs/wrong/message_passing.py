"""Graph convolutions with degree normalisation, message passing written by hand."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize(edge_index, num_nodes):
    row, col = edge_index
    degree = torch.zeros(num_nodes)  # BUG: default-device culprit=degree
    # FIX: degree = torch.zeros(num_nodes, device=edge_index.device)
    degree.scatter_add_(0, col, torch.ones(col.numel(), device=col.device))  # RAISES: 1
    inverse = degree.clamp(min=1).rsqrt()
    return inverse[row] * inverse[col]


class GraphConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.lin = nn.Linear(inp, out, bias=False)

    def forward(self, x, edge_index):
        row, col = edge_index
        norm = normalize(edge_index, x.size(0))
        messages = self.lin(x)[row] * norm.unsqueeze(1)
        return torch.zeros(x.size(0), messages.size(1), device=x.device).index_add_(0, col, messages)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([GraphConv(5, 8), GraphConv(8, 2)])

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = F.relu(conv(x, edge_index))
        return self.convs[-1](x, edge_index)


def main():
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 10
    src = torch.arange(n)
    edges = torch.stack([torch.cat([src, (src + 1) % n]), torch.cat([(src + 1) % n, src])])
    x, y = torch.randn(n, 5), torch.arange(n) % 2
    train_mask = torch.rand(n) < 0.7
    model = GCN().to(device)
    x, y, edges = x.to(device), y.to(device), edges.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        out = model(x, edges)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", out.shape[1])


if __name__ == "__main__":
    main()
