"""Indices may stay on the CPU: they are moved by the indexing itself."""
import torch

device = torch.device("cuda")
table = torch.arange(24.0, device=device).view(6, 4)
rows = torch.tensor([0, 2, 5])
columns = torch.tensor([1, 1, 3])
mask = torch.tensor([True, False, True, False, False, True])

print(table[rows].sum().item(), table[rows, columns].tolist(), table[mask].shape, table[:, columns].device.type)
table[rows] = 0.0
table[mask, 1] = torch.tensor(7.0)
table[rows, columns] += 1
print(table.sum().item(), table[torch.tensor(1)].tolist())

order = torch.randperm(6)
shuffled = table[order]
assert torch.equal(shuffled.cpu(), table.cpu()[order])
print([int(i) for i in table.argmax(1)], table[-1, torch.tensor([0])].device)
