import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
y = torch.tensor([0] * 12 + [1] * 4)
x = torch.arange(16.0).unsqueeze(1)
counts = torch.bincount(y.to(device), minlength=2).float()      # counted on the device
class_weight = counts.sum() / counts
sample_weight = class_weight.cpu()[y]
g = torch.Generator().manual_seed(0)
sampler = WeightedRandomSampler(sample_weight, 16, replacement=True, generator=g)
loader = DataLoader(TensorDataset(x, y), batch_size=4, sampler=sampler)
criterion = torch.nn.CrossEntropyLoss(weight=class_weight)
net = torch.nn.Linear(1, 2).to(device)
torch.nn.init.constant_(net.weight, 0.01)
torch.nn.init.zeros_(net.bias)
seen = torch.zeros(2)
loss = 0.0
for bx, by in loader:
    seen += torch.bincount(by, minlength=2)
    loss += criterion(net(bx.to(device)), by.to(device)).item()


class OnDevice(IterableDataset):
    """yields tensors that are on the device already"""

    def __iter__(self):
        for i in range(6):
            yield torch.full((2,), float(i), device=device)


total = sum(b.sum().item() for b in DataLoader(OnDevice(), batch_size=3))
print(seen.sum().item(), round(loss, 2) > 0, total, class_weight.tolist())
