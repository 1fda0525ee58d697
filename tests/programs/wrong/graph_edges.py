"""Message passing on a graph whose edges stayed where they were read."""
import torch
import torch.nn as nn


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, h, edge_index):
        src, dst = edge_index
        messages = self.lin(h)[src]
        out = h.new_zeros(h.size(0), messages.size(1))
        return out.index_add_(0, dst, messages)  # RAISES: 1  # ALSO: 1


class Graph:
    def __init__(self, x, edges, y):
        self.x, self.edges, self.y = x, edges, y

    def to(self, device):
        self.x, self.y = self.x.to(device), self.y.to(device)  # BUG: batch-not-moved|default-device|other culprit=graph.edges
        # FIX: self.x, self.y, self.edges = self.x.to(device), self.y.to(device), self.edges.to(device)
        return self


torch.manual_seed(0)
ring = torch.stack([torch.arange(8), (torch.arange(8) + 1) % 8])  # ALSO: 1
graph = Graph(torch.randn(8, 5), torch.cat([ring, ring.flip(0)], 1), torch.arange(8) % 2).to("cuda")  # ALSO: 1
layers = nn.ModuleList([GCNLayer(5, 8), GCNLayer(8, 2)]).to("cuda")
opt = torch.optim.Adam(layers.parameters(), lr=0.01)
for epoch in range(3):
    h = torch.relu(layers[0](graph.x, graph.edges))
    h = layers[1](h, graph.edges)
    loss = nn.functional.cross_entropy(h, graph.y)
    opt.zero_grad(); loss.backward(); opt.step()
    print(epoch, f"{loss.item():.4f}")
