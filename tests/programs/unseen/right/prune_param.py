import torch
from torch import nn
from torch.nn.utils import parametrize, prune


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Scaled(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("s", torch.linspace(0.5, 1.0, n))

    def forward(self, w):
        return w * self.s


torch.manual_seed(71)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
parametrize.register_parametrization(net[0], "weight", Symmetric())
parametrize.register_parametrization(net[0], "weight", Scaled(4))
prune.l1_unstructured(net[2], "weight", amount=0.5)      # mask is a buffer: it moves with the module
net.to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.sin(torch.arange(32.0, device=device)).view(8, 4)
for _ in range(5):
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
prune.remove(net[2], "weight")
zeros = (net[2].weight == 0).sum().item()
parametrize.remove_parametrizations(net[0], "weight")
print("%.4f" % loss.item(), zeros, net[0].weight.device.type == device.type)
