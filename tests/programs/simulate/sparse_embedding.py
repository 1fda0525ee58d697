# compare: close
# devices: 1
"""Embeddings with sparse gradients and SparseAdam; a sparse matrix product."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
embedding = nn.Embedding(50, 8, sparse=True).to(device)
bag = nn.EmbeddingBag(50, 8, mode="sum", sparse=True).to(device)
optimizer = torch.optim.SparseAdam(list(embedding.parameters()) + list(bag.parameters()), lr=0.05)
tokens = torch.randint(0, 50, (6, 4)).to(device)
for step in range(5):
    loss = (embedding(tokens).sum(1) + bag(tokens) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    assert embedding.weight.grad.is_sparse and embedding.weight.grad.device.type == device.type
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")

indices, values = torch.tensor([[0, 1, 2], [2, 0, 1]]).to(device), torch.tensor([1.0, 2.0, 3.0]).to(device)
adjacency = torch.sparse_coo_tensor(indices, values, (3, 3)).coalesce()
dense = torch.arange(6.0).view(3, 2).to(device)
print("product", torch.sparse.mm(adjacency, dense).tolist(), "dense", adjacency.to_dense().tolist())
print("csr", adjacency.to_sparse_csr().crow_indices().tolist())
