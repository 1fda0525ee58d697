"""Hard choices with straight-through; where() with scalars on either side."""
import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.score = nn.Linear(d, k)
        self.branch = nn.ModuleList(nn.Linear(d, d) for _ in range(k))

    def forward(self, x, tau):
        soft = (self.score(x) / tau).softmax(-1)
        hard = F.one_hot(soft.argmax(-1), soft.size(-1)).to(soft.dtype)
        gate = hard + soft - soft.detach()
        y = torch.stack([b(x) for b in self.branch], -1)
        return (y * gate.unsqueeze(1)).sum(-1), soft


torch.manual_seed(38)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Router(4, 3).to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.cos(torch.arange(40.0)).view(10, 4).to(device)
for it in range(8):
    tau = torch.tensor(max(0.3, 1.0 - it / 10))          # annealed on the host
    y, soft = net(x, tau)
    err = y - x
    robust = torch.where(err.abs() < 1, 0.5 * err**2, err.abs() - 0.5)
    usage = torch.where(soft > torch.tensor(0.5), torch.tensor(1.0), soft).mean(0)
    loss = robust.mean() + 0.01 * (usage - 1 / 3).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
signs = torch.where(x[:, 0] > 0, 1.0, -1.0)
print("%.4f %.4f %d" % (loss.item(), usage.sum().item(), int(signs.sum())))
