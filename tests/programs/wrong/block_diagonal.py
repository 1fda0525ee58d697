"""Graphs of a batch in one adjacency matrix, with a block of loops for the nodes that stand alone."""

import torch

torch.manual_seed(0)
device = torch.device("cuda")
graphs = [torch.randint(0, 2, (nodes, nodes)).float().to(device) for nodes in (3, 4)]
features = torch.randn(9, 8, device=device)
weight = torch.randn(8, 4, device=device, requires_grad=True)
loops = torch.eye(2)  # BUG: default-device culprit=loops
# FIX: loops = torch.eye(2, device=device)
print("nodes", features.shape[0])

adjacency = torch.block_diag(*graphs, loops)  # RAISES: 1
hidden = torch.relu(adjacency @ features @ weight)
hidden.sum().backward()
