# Physics-informed network for u_t = a u_xx
import torch
import torch.nn as nn
from torch import pi

dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(100)
torch.set_default_dtype(torch.float64)


class Fourier(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.freq = torch.arange(1, n + 1) * pi  # BUG: any culprit=self.freq
        # FIX: self.register_buffer("freq", torch.arange(1, n + 1) * pi)

    def forward(self, xt):
        x, t = xt.split(1, dim=1)
        return torch.cat([torch.sin(x * self.freq), t], dim=1)  # RAISES: 1 # RAISES: 3


class PINN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Fourier()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_a = nn.Parameter(torch.tensor(-1.0))

    def forward(self, xt):
        return self.net(self.features(xt))


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residual(model, xt):
    xt = xt.requires_grad_(True)
    u = model(xt)
    du = derivative(u, xt)
    u_x, u_t = du[:, :1], du[:, 1:]
    u_xx = derivative(u_x, xt)[:, :1]
    return u_t - model.log_a.exp() * u_xx


model = PINN().to(dev)
opt = torch.optim.LBFGS(model.parameters(), max_iter=5)

x = torch.linspace(0, 1, 6)
t = torch.linspace(0, 0.5, 4)
interior = torch.cartesian_prod(x, t).to(dev)
initial = torch.stack([x, torch.zeros(6)], 1).to(dev)
u0 = torch.sin(pi * x).unsqueeze(1)  # BUG: any culprit=u0
# FIX: u0 = torch.sin(pi * x).unsqueeze(1).to(dev)
walls = torch.cartesian_prod(torch.tensor([0.0, 1.0]), t)  # BUG: any culprit=walls
# FIX: walls = torch.cartesian_prod(torch.tensor([0.0, 1.0]), t).to(dev)


def closure():
    opt.zero_grad()
    loss = residual(model, interior).pow(2).mean()
    loss = loss + (model(initial) - u0).pow(2).mean()  # RAISES: 2
    loss = loss + model(walls).pow(2).mean()
    loss.backward()
    return loss


for it in range(3):
    value = opt.step(closure)
print("loss %.4f a %.4f" % (float(value), model.log_a.exp().item()))
