"""Transfer learning: freeze the backbone, put a new head on it."""

import torch
from torch import nn


class TinyResNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.block = nn.Conv2d(8, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(x + self.bn(self.block(x)))
        return self.fc(x.mean((2, 3)))  # RAISES: 1


torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

model_ft = TinyResNet().to(device)
for param in model_ft.parameters():
    param.requires_grad = False
num_ftrs = model_ft.fc.in_features
model_ft.fc = nn.Linear(num_ftrs, 2)  # BUG: model-not-moved culprit=model_ft.fc.weight
# FIX: model_ft.fc = nn.Linear(num_ftrs, 2).to(device)

criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model_ft.fc.parameters(), lr=0.1, momentum=0.9)
inputs, labels = torch.rand(6, 3, 8, 8).to(device), torch.tensor([0, 1, 0, 1, 0, 1]).to(device)
for epoch in range(3):
    optimizer.zero_grad()
    loss = criterion(model_ft(inputs), labels)
    loss.backward()
    optimizer.step()
    print(f"Epoch {epoch}: {loss.item():.4f}")
