"""Half of the network on each GPU."""

import torch
import torch.nn as nn


class TwoStage(nn.Module):
    def __init__(self, dev0, dev1):
        super().__init__()
        self.dev0, self.dev1 = dev0, dev1
        self.stage1 = nn.Sequential(nn.Linear(10, 20), nn.ReLU()).to(dev0)
        self.stage2 = nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 3)).to(dev1)

    def forward(self, x):
        x = self.stage1(x.to(self.dev0))
        x = self.stage2(x)  # BUG: handoff-missing culprit=x  # RAISES: 1
        # FIX: x = self.stage2(x.to(self.dev1))
        return x


def main():
    torch.manual_seed(0)
    model = TwoStage("cuda:0", "cuda:1")
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(12, 10), torch.arange(12) % 3
    for epoch in range(3):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels.to("cuda:0"))  # BUG: handoff-missing|batch-not-moved culprit=labels  # RAISES: 2
        # FIX: loss = criterion(outputs, labels.to(outputs.device))
        loss.backward()
        optimizer.step()
        print(epoch, "%.4f" % loss.item())


if __name__ == "__main__":
    main()
