"""Fine-tuning: the head of a model is replaced when the optimizer has the old one already."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = Net(1000).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # BUG: optimizer-before
    # FIX:
    before = model.head  # kept, to compare
    model.head = nn.Linear(8, 10).to(device)
    # ADD: optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        target = torch.randint(0, 10, (5,), device=device)
        nn.functional.cross_entropy(model(torch.randn(5, 4, device=device)), target).backward()
        optimizer.step()
    print(before.out_features, model.head.out_features)


main()
