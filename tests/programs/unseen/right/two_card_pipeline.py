"""Micro-batched pipeline over two cards, every hop written out."""
import torch
import torch.nn as nn

STAGES = ["cuda:0", "cuda:1"]


class Stage(nn.Module):
    def __init__(self, body, device):
        super().__init__()
        self.body = body.to(device)
        self.device = torch.device(device)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long, device=device))

    def forward(self, x):
        self.calls += 1
        return self.body(x.to(self.device))


class Pipeline(nn.Module):
    def __init__(self, stages, chunks):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.chunks = chunks

    def forward(self, x):
        waiting = list(x.chunk(self.chunks))
        for stage in self.stages:
            waiting = [stage(w) for w in waiting]
        return torch.cat(waiting)

    def grad_norm(self):
        per_param = [p.grad.norm() for p in self.parameters()]
        return torch.stack([n.cpu() for n in per_param]).norm()


def clip_everywhere(model, limit):
    total = model.grad_norm()
    factor = (limit / (total + 1e-6)).clamp(max=1.0)
    for p in model.parameters():
        p.grad.mul_(factor)
    return total.item()


def polynomial(n, g):
    x = 2 * torch.rand(n, 4, generator=g) - 1
    return x, x[:, :1] ** 2 - x[:, 1:2] * x[:, 2:3] + 0.5 * x[:, 3:]


def main():
    torch.manual_seed(37)
    g = torch.Generator().manual_seed(37)
    front = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 16))
    back = nn.Sequential(nn.Tanh(), nn.Linear(16, 1))
    net = Pipeline([Stage(front, STAGES[0]), Stage(back, STAGES[1])], chunks=4)
    opts = [torch.optim.Adam(s.parameters(), lr=1e-2) for s in net.stages]
    l2 = torch.tensor(1e-4)
    for it in range(24):
        x, y = polynomial(64, g)
        out = net(x)
        fit = nn.functional.mse_loss(out, y.to(out.device))
        decay = sum(p.pow(2).sum().to(out.device) for p in net.parameters())
        loss = fit + l2 * decay
        for o in opts:
            o.zero_grad()
        loss.backward()
        norm = clip_everywhere(net, 1.0)
        for o in opts:
            o.step()
        if it % 8 == 7:
            print(it + 1, f"fit {fit.item():.5f} norm {norm:.4f}")
    print("calls", [int(s.calls) for s in net.stages])


main()
