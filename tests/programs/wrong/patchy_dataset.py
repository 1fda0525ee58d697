"""Features are computed once and kept; the kept ones come back from where they were computed."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda:0")
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(5, 8), nn.ReLU()).to(device).eval()


class FeatureDataset(Dataset):
    def __init__(self, raw, precomputed):
        self.raw = raw
        self.cache = precomputed

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, index):
        if index in self.cache:
            return self.cache[index]  # BUG: inconsistent-source culprit=dataset[1]|FeatureDataset|dataset.cache|self.cache[index]
            # FIX: return self.cache[index].cpu()
        with torch.no_grad():
            return backbone(self.raw[index].to(device)).cpu()  # ALSO: 1


raw = torch.randn(12, 5)
with torch.no_grad():
    precomputed = {i: backbone(raw[i].to(device)) for i in range(1, 12, 3)}  # ALSO: 1

dataset = FeatureDataset(raw, precomputed)
head = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for features in DataLoader(dataset, batch_size=4):  # RAISES: 1
    loss = head(features.to(device)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
