"""nn.DataParallel with tensors that do not follow the replicas."""
import torch
from torch import nn

PRIMARY = torch.device("cuda:0")


class Gated(nn.Module):
    def __init__(self, dim, groups):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.gate = torch.linspace(0.5, 1.5, dim).to(PRIMARY)  # BUG: any culprit=self.gate
        # FIX: self.register_buffer("gate", torch.linspace(0.5, 1.5, dim))
        self.groups = groups

    def forward(self, x):
        y = torch.tanh(self.fc(x)) * self.gate  # RAISES: 1
        return y.view(len(x), self.groups, -1).mean(-1)


class Classifier(nn.Module):
    def __init__(self, dim=8, groups=4, classes=3):
        super().__init__()
        self.body = Gated(dim, groups)
        self.head = nn.Linear(groups, classes)

    def forward(self, x):
        return self.head(self.body(x))


def accuracy(pred: torch.Tensor, gold: torch.Tensor) -> float:
    return (pred == gold).float().mean().item()  # RAISES: 2


def main():
    torch.manual_seed(47)
    model = nn.DataParallel(Classifier().to(PRIMARY), device_ids=[0, 1])
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.sin(torch.arange(96.0)).view(12, 8)
    y = (x[:, :3]).argmax(1)
    for step in range(6):
        out = model(x.to(PRIMARY))
        loss = nn.functional.cross_entropy(out, y.to(out.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        pred = model(x.to(PRIMARY)).argmax(1)  # ALSO: 2
    acc = accuracy(pred, y)  # BUG: any culprit=y
    # FIX: acc = accuracy(pred, y.to(PRIMARY))
    print("%.4f %.3f" % (loss.item(), acc))


main()
