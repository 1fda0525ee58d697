import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = F.relu(self.conv(x))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def train(model, device, train_loader, optimizer):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):  # ALSO: 1
        data = data.to(device)  # BUG: batch-not-moved culprit=target
        # FIX: data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)  # RAISES: 1  # ALSO: 1
        loss.backward()
        optimizer.step()
        print(f"batch {batch_idx} loss {loss.item():.4f}")


@torch.no_grad()
def test(model, device, test_loader):
    model.eval()
    per_class = torch.zeros(10)  # BUG: default-device culprit=per_class
    # FIX: per_class = torch.zeros(10, device=device)
    for data, target in test_loader:
        data, target = data.to(device), target.to(device)
        hits = model(data).argmax(1).eq(target).float()
        per_class.index_add_(0, target, hits)  # RAISES: 2
    print("correct per class:", per_class.int().tolist())


def main():
    torch.manual_seed(1)
    device = torch.device("cuda")
    data = TensorDataset(torch.rand(24, 1, 8, 8), torch.arange(24) % 10)
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    train(model, device, DataLoader(data, batch_size=8), optimizer)
    test(model, device, DataLoader(data, batch_size=12))


if __name__ == "__main__":
    main()
