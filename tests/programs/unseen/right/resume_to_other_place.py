"""Training is interrupted on one device and resumed on others; optimizer states follow their parameters."""
import io
import json

import torch
from torch import nn

PLACES = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def build():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.add_(0.05 * torch.cos(torch.arange(p.numel() * 1.0) + i).view(p.shape))
    return net


class Session:
    def __init__(self, device):
        torch.manual_seed(6)
        self.device = torch.device(device)
        self.net = build().to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.02, amsgrad=True)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.opt, 3, 0.5)
        self.order = torch.Generator().manual_seed(1)  # always of the host

    def step(self, x, y):
        rows = torch.randperm(len(x), generator=self.order)[:16]
        loss = nn.functional.cross_entropy(self.net(x[rows].to(self.device)), y[rows].to(self.device))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.schedule.step()
        return loss.item()

    def save(self):
        buffer = io.BytesIO()
        torch.save(
            {
                "net": self.net.state_dict(),
                "opt": self.opt.state_dict(),
                "schedule": self.schedule.state_dict(),
                "order": self.order.get_state(),
                "meta": json.dumps({"device": str(self.device)}),
            },
            buffer,
        )
        return buffer.getvalue()

    @classmethod
    def resume(cls, data, device):
        session = cls(device)
        saved = torch.load(io.BytesIO(data), map_location="cpu")
        session.net.load_state_dict(saved["net"])
        session.opt.load_state_dict(saved["opt"])  # casts states to where the parameters are
        session.schedule.load_state_dict(saved["schedule"])
        session.order.set_state(saved["order"])
        return session


x = torch.sin(torch.arange(160.0) * 0.43).view(40, 4)
y = (x[:, 1] > 0.1).long()
session = Session(PLACES[-1])
for _ in range(2):
    session.step(x, y)
for place in PLACES:
    session = Session.resume(session.save(), place)
    losses = [session.step(x, y) for _ in range(2)]
    print([round(v, 4) for v in losses], session.schedule.last_epoch)
states = session.opt.state[session.net[0].weight]
print(sorted(k for k, v in states.items() if v.device == session.device and v.dim()), states["step"].device)
everything = torch.cat([v.flatten().float().cpu() for v in session.net.state_dict().values()])
print(f"{everything.abs().mean().item():.4f}")
