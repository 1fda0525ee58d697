"""index_put_ and friends: CPU indices, and values that are single numbers on the CPU."""
import torch

grid = torch.zeros(4, 5, device="cuda")
rows, columns = torch.tensor([0, 1, 3]), torch.tensor([2, 2, 4])
grid.index_put_((rows, columns), torch.tensor(1.0))
grid.index_put_((rows.cuda(), columns.cuda()), torch.ones(3, device="cuda"), accumulate=True)
grid[rows, 0] = torch.tensor(0.5)
grid[rows] += 1
print(grid.tolist())
counts = torch.zeros(6, dtype=torch.long, device="cuda")
labels = torch.tensor([0, 1, 1, 5], device="cuda")
counts.index_add_(0, labels, torch.ones_like(labels))
counts.scatter_add_(0, labels, torch.ones_like(labels))
print(counts.tolist(), torch.bincount(labels, minlength=6).tolist(), counts[labels.cpu()].tolist())
host = torch.zeros(3)
host[torch.tensor([0, 2])] = torch.tensor(4.0, device="cuda").item()
print(host.tolist(), grid.take(torch.tensor([0, 7], device="cuda")).tolist())
