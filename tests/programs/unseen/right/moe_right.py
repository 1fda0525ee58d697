import torch
from torch import nn


class MoE(nn.Module):
    """Experts are on other devices; tokens travel there and back."""

    def __init__(self, d, devices):
        super().__init__()
        self.router = nn.Linear(d, len(devices)).to(devices[0])
        self.experts = nn.ModuleList(nn.Linear(d, d).to(dev) for dev in devices)

    def forward(self, x):
        gate = self.router(x).softmax(-1)
        weight, choice = gate.max(-1)
        out = torch.zeros_like(x)
        for i, ex in enumerate(self.experts):
            where = ex.weight.device
            sel = choice == i
            if not sel.any():
                continue
            y = ex(x[sel].to(where))
            out[sel] = y.to(x.device) * weight[sel].unsqueeze(1)
        load = torch.bincount(choice, minlength=len(self.experts)) / len(choice)
        return out, (load * gate.mean(0)).sum()


torch.manual_seed(12)
devices = [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]
moe = MoE(4, devices)
opt = torch.optim.Adam(moe.parameters(), lr=1e-2)
x = torch.sin(torch.arange(40.0, device=devices[0])).view(10, 4)
for _ in range(5):
    y, aux = moe(x)
    loss = (y - x).square().mean() + 0.01 * aux
    opt.zero_grad()
    loss.backward()
    opt.step()
l2 = sum(p.detach().norm().item() for p in moe.parameters())
host = torch.stack([p.detach().norm().cpu() for p in moe.experts.parameters()])
print("%.4f %.3f %.3f" % (loss.item(), l2, host.sum().item()))
