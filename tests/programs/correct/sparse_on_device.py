"""A sparse adjacency matrix: built on the host, moved whole, multiplied on the device."""
import torch
from torch import nn

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
adjacency = torch.sparse_coo_tensor(edges, torch.ones(6), (5, 5)).coalesce()
degree = adjacency.to_dense().sum(1).clamp(min=1)
moved = adjacency.to("cuda")
features = torch.randn(5, 4, device="cuda", requires_grad=True)
layer = nn.Linear(4, 2).to("cuda")
out = torch.sparse.mm(moved, layer(features)) / degree.to("cuda")[:, None]
out.square().sum().backward()
print(out.shape, moved.device, moved.indices().device, features.grad.device)
there = torch.sparse_coo_tensor(edges.cuda(), torch.ones(6, device="cuda"), (5, 5), device="cuda")
print(torch.equal(there.to_dense().cpu(), adjacency.to_dense()), there.coalesce().values().sum().item())
