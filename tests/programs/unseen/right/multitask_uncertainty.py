"""Multi-task loss with learned log variances; tasks in a dict, heads in a ModuleDict."""
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.heads = nn.ModuleDict({t: nn.Linear(8, n) for t, n in tasks.items()})
        self.log_var = nn.ParameterDict({t: nn.Parameter(torch.zeros(())) for t in tasks})
        self.plain = {t: torch.tensor(float(n)) for t, n in tasks.items()}     # 0-d, may stay on the host

    def forward(self, x):
        h = self.trunk(x)
        return {t: head(h) for t, head in self.heads.items()}

    def loss(self, out, target):
        total = 0
        for t, o in out.items():
            y = target[t].to(o.device)
            raw = nn.functional.cross_entropy(o, y) if o.size(1) > 1 else (o.squeeze(1) - y).square().mean()
            total = total + raw * (-self.log_var[t]).exp() / self.plain[t] + self.log_var[t]
        return total


torch.manual_seed(81)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = MultiTask({"kind": 3, "size": 1}).to(dev)
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
x = torch.sin(torch.arange(48.0)).view(12, 4)
target = {"kind": torch.arange(12) % 3, "size": x.sum(1)}
for _ in range(10):
    loss = net.loss(net(x.to(dev)), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("%.4f" % loss.item(), {k: round(v.item(), 3) for k, v in net.log_var.items()})
