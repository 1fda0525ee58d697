"""Graph regression; each graph is an object that moves its own fields."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Graph:
    nodes: torch.Tensor
    edges: torch.Tensor
    target: torch.Tensor
    degree: torch.Tensor = None

    def count_neighbours(self):
        self.degree = torch.bincount(self.edges[1], minlength=len(self.nodes)).clamp(min=1).float()
        return self

    def to(self, device):
        self.nodes = self.nodes.to(device)
        self.edges = self.edges.to(device)
        self.target = self.target.to(device)  # BUG: default-device culprit=graph.degree
        # ADD: self.degree = self.degree.to(device)
        return self


class Convolution(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.mix = nn.Linear(width_in, width_out)

    def forward(self, nodes, edges, degree):
        source, sink = edges
        gathered = torch.zeros_like(nodes).index_add_(0, sink, nodes[source])
        return self.mix(gathered / degree.unsqueeze(-1))  # RAISES: 1


def make_graph(seed):
    draw = torch.Generator().manual_seed(seed)
    nodes = torch.randn(6, 4, generator=draw)
    edges = torch.randint(0, 6, (2, 14), generator=draw)
    return Graph(nodes, edges, nodes.mean().reshape(1)).count_neighbours()


def main():
    torch.manual_seed(2)
    device = torch.device("cuda")
    first, second = Convolution(4, 8).to(device), Convolution(8, 1).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.02)
    graphs = [make_graph(seed).to(device) for seed in range(3)]
    for epoch in range(2):
        total = 0.0
        for graph in graphs:
            hidden = first(graph.nodes, graph.edges, graph.degree).relu()
            out = second(hidden, graph.edges, graph.degree).mean().reshape(1)
            loss = nn.functional.mse_loss(out, graph.target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total:.4f}")


main()
