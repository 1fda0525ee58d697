"""Adam whose moments live on the host: gradients travel down, updates travel up."""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class HostAdam:
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.999), eps=1e-8):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0
        pin = torch.cuda.is_available()
        self.m = [torch.zeros(p.shape, pin_memory=pin) for p in self.params]
        self.v = [torch.zeros(p.shape, pin_memory=pin) for p in self.params]
        self.bias = torch.tensor([1.0, 1.0])

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        self.bias = 1 - torch.tensor(self.betas) ** self.t
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad.to("cpu")
            m.lerp_(g, 1 - b1)
            v.lerp_(g.square(), 1 - b2)
            update = (m / self.bias[0]) / ((v / self.bias[1]).sqrt() + self.eps)
            p.add_(update.to(p.device), alpha=-self.lr)
            p.mul_(self.bias.new_tensor(0.999))  # a number on the host may meet anything

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def state_dict(self):
        return {"m": self.m, "v": self.v, "t": self.t}


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 12), nn.SiLU(), nn.Linear(12, 1)).to(device)
x = torch.sin(torch.arange(100.0) * 0.3).view(20, 5)
y = x.prod(1, keepdim=True)
opt = HostAdam(net.parameters())
best, kept = float("inf"), None
for epoch in range(6):
    out = net(x.to(device))
    loss = (out - y.to(device)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if loss < best:
        best = loss
        kept = {k: v.cpu().clone() for k, v in net.state_dict().items()}
    print(epoch, f"{loss.item():.5f}", f"{best:.5f}")
net.load_state_dict(kept)  # copies from the host
state = opt.state_dict()
print(state["t"], f"{sum(m.norm() for m in state['m']).item():.5f}")

# moments against the weights, on the host, by number of the layer
ratios = torch.tensor([(m.norm() / p.detach().cpu().norm()).item() for m, p in zip(opt.m, net.parameters())])
scale = torch.tensor(2.0)
print([round(v, 4) for v in (ratios * scale).tolist()], (net[0].weight * scale).device.type == device.type)
