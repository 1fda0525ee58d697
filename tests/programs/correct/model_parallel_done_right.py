"""Three stages on two GPUs, a skip connection, and micro-batches."""
import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 12).to("cuda:0")
        self.second = nn.Linear(12, 12).to("cuda:1")
        self.third = nn.Linear(12, 2).to("cuda:0")

    def forward(self, x):
        outputs = []
        for part in x.split(4):
            a = torch.relu(self.first(part.to("cuda:0", non_blocking=True)))
            b = torch.relu(self.second(a.to("cuda:1")))
            outputs.append(self.third(a + b.to(a.device)))
        return torch.cat(outputs)


torch.manual_seed(0)
model = Pipeline()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(12, 6), torch.arange(12) % 2
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), y.to("cuda:0"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("%.4f" % loss.item(), [str(p.grad.device) for p in model.parameters()])
total = sum(p.grad.square().sum().item() for p in model.parameters()) ** 0.5
print(total > 0)
