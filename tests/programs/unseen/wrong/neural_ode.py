import torch
import torch.nn as nn


class ODEFunc(nn.Module):
    def __init__(self, dim=2, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, hidden), nn.Tanh(), nn.Linear(hidden, dim))
        self.nfe = 0

    def forward(self, t, y):
        self.nfe += 1
        tt = torch.ones(y.shape[0], 1) * t  # BUG: any culprit=tt # RAISES: 1 # RAISES: 2
        # FIX: tt = torch.ones(y.shape[0], 1, device=y.device) * t
        return self.net(torch.cat([y, tt], dim=1))


def rk4(f, t, dt, y):
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt / 2 * k1)
    k3 = f(t + dt / 2, y + dt / 2 * k2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def odeint(f, y0, ts):
    ys = [y0]
    for a, b in zip(ts[:-1], ts[1:]):
        ys.append(rk4(f, a, b - a, ys[-1]))
    return torch.stack(ys)


def spiral(ts):
    """the true trajectories, from four starts"""
    starts = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 1.0]])
    out = []
    for t in ts.tolist():
        r = torch.exp(torch.tensor(-0.1 * t))
        c, s = torch.cos(torch.tensor(t)), torch.sin(torch.tensor(t))
        out.append(r * starts @ torch.stack([torch.stack([c, -s]), torch.stack([s, c])]))
    return torch.stack(out)


class Runner:
    def __init__(self, device):
        self.device = device
        self.func = ODEFunc().to(device)
        self.ts = torch.linspace(0, 1.5, 6).to(device)
        self.truth = spiral(self.ts)  # BUG: any culprit=self.truth
        # FIX: self.truth = spiral(self.ts).to(device)
        self.opt = torch.optim.Adam(self.func.parameters(), lr=0.01)

    def step(self):
        pred = odeint(self.func, self.truth[0], self.ts)
        loss = (pred - self.truth).abs().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def export(self):
        with torch.no_grad():
            path = odeint(self.func, self.truth[0], self.ts)
        return path.numpy()  # BUG: any culprit=path # RAISES: 3
        # FIX: return path.cpu().numpy()


torch.manual_seed(0)
runner = Runner("cuda:0" if torch.cuda.is_available() else "cpu")
losses = [runner.step() for _ in range(10)]
print(f"{losses[0]:.4f} -> {losses[-1]:.4f}; {runner.func.nfe} evaluations; {runner.export().shape}")
