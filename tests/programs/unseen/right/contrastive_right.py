"""NT-Xent with labels derived from the logits, and a queue registered as a buffer."""
import torch
import torch.nn.functional as F
from torch import nn


class SimCLR(nn.Module):
    def __init__(self, dim=6, queue=8):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, dim))
        self.register_buffer("queue", F.normalize(torch.cos(torch.arange(queue * dim).float()).view(queue, dim), dim=1))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    def nt_xent(self, a, b, t=0.5):
        z = F.normalize(torch.cat([self.f(a), self.f(b)]), dim=1)
        n = len(a)
        sim = z @ z.T / t
        sim.fill_diagonal_(-1e9)
        labels = torch.arange(2 * n, device=sim.device).roll(n)
        extra = z @ self.queue.clone().T / t
        self.push(z[:n].detach())
        return F.cross_entropy(torch.cat([sim, extra], 1), labels)

    @torch.no_grad()
    def push(self, z):
        p = int(self.ptr)
        idx = (torch.arange(len(z)) + p) % len(self.queue)
        self.queue[idx] = z
        self.ptr[0] = (p + len(z)) % len(self.queue)


torch.manual_seed(66)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = SimCLR().to(dev)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(8):
    x = torch.sin(torch.arange(20.0) + i).view(4, 5).to(dev)
    loss = model.nt_xent(x, x + 0.01)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("%.4f %d" % (loss.item(), int(model.ptr)))
