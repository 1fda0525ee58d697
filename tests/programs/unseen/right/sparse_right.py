# Sparse adjacency on the device, CSR and COO, with the degree kept where it is used
import torch

dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
adj = torch.sparse_coo_tensor(edges, torch.ones(edges.size(1)), (5, 5)).coalesce()
adj = adj.to(dev)
x = torch.eye(5, device=dev)[:, :3] + torch.arange(5.0, device=dev).unsqueeze(1)

deg = torch.sparse.sum(adj, 1).to_dense()
h = torch.sparse.mm(adj, x) / deg.clamp(min=1).unsqueeze(1)
src, dst = adj.indices()
val = adj.values() / deg[src].clamp(min=1)
norm = torch.sparse_coo_tensor(torch.stack([src, dst]), val, adj.shape, device=dev)
h2 = torch.sparse.mm(norm, x)
dense = adj.to_dense() @ x
host = adj.cpu().to_dense()
reach = [int(i) for i in host[0].nonzero().flatten()]
assert torch.allclose(h, h2)

# two hops, counted on the device and looked up on the host
two = torch.sparse.mm(adj, adj).coalesce()
pairs = list(zip(*two.indices().tolist()))
weights = dict(zip(pairs, two.values().tolist()))
csr = adj.to_sparse_csr()
rowptr = csr.crow_indices().cpu().numpy()
print(len(weights), weights[(0, 2)], rowptr.tolist(), (csr @ x).sum().item())
print("%.3f %.3f" % (h.sum().item(), dense.sum().item()), reach, host.sum().item())
