# compare: close
# devices: 1
"""A small image classifier with BatchNorm; no dropout, so nothing is drawn on the device."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.fc = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.max_pool2d(self.depthwise(x), 2)
        return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


def train(model, device, loader, optimizer, epoch):
    model.train()
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch % 2 == 0:
            print(f"epoch {epoch} batch {batch} loss {loss.item():.5f}")


@torch.no_grad()
def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        output = model(data)
        loss += F.nll_loss(output, target, reduction="sum").item()
        correct += output.argmax(dim=1, keepdim=True).eq(target.view_as(output.argmax(dim=1, keepdim=True))).sum().item()
    print(f"test loss {loss / len(loader.dataset):.5f} correct {correct}/{len(loader.dataset)}")


def main():
    torch.manual_seed(1)
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    labels = torch.arange(128) % 10
    images = torch.randn(128, 1, 16, 16) * 0.3
    images[torch.arange(128), 0, labels, :] += 1.0  # the class is the bright row
    loader = DataLoader(TensorDataset(images, labels), batch_size=32)
    model = Net().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 4):
        train(model, device, loader, optimizer, epoch)
        test(model, device, loader)
        scheduler.step()
    assert model.bn1.running_mean.device.type == device.type
    print(f"running mean {model.bn1.running_mean.sum().item():.5f} batches {int(model.bn1.num_batches_tracked)}")


if __name__ == "__main__":
    main()
