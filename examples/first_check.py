"""Trains a small classifier on one GPU, with five placement mistakes: docs/tutorial.md goes through them."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 16), nn.Linear(16, 16)]
        self.head = nn.Linear(16, 3)
        self.offset = torch.tensor([0.1, 0.0, -0.1])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        places = torch.linspace(0.9, 1.1, x.shape[1])
        return self.head(x * places) + self.offset


def accuracy(model, inputs, labels):
    return (model(inputs).argmax(dim=1) == labels).float().mean().item()


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
    model = Net().to(DEVICE)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in DataLoader(data, batch_size=32):
        inputs = inputs.to(DEVICE)
        labels.to(DEVICE)
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
