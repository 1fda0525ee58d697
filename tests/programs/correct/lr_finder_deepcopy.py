"""An LR finder that works on copies and restores what it touched."""
import copy

import torch
from torch import nn


class LRFinder:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.saved = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())

    def range_test(self, x, y, rates):
        losses = []
        for rate in rates:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def reset(self):
        self.model.load_state_dict(self.saved[0])
        self.optimizer.load_state_dict(self.saved[1])


torch.manual_seed(0)
device = torch.device("cuda:1")
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
before = copy.deepcopy(model)
finder = LRFinder(model, optimizer, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0])).to(device))
losses = finder.range_test(torch.randn(9, 4, device=device), torch.arange(9, device=device) % 3, [1e-3, 1e-2, 1e-1])
finder.reset()
print(len(losses), all(torch.equal(a, b) for a, b in zip(before.parameters(), model.parameters())), next(before.parameters()).device)
