"""DDIM sampler: schedule on the host, gathered coefficients sent to x's device."""
import torch
from torch import nn

T = 16
betas = torch.linspace(1e-4, 0.1, T)
abar = torch.cumprod(1 - betas, 0)


def extract(a, t, x):
    # t is brought to the table, the result to x
    return a.gather(0, t.cpu()).to(x.device).view(-1, *[1] * (x.dim() - 1))


def add_noise(x, t, noise):
    a = extract(abar, t, x)
    return a.sqrt() * x + (1 - a).sqrt() * noise


@torch.no_grad()
def ddim(model, x, steps=4):
    times = torch.linspace(T - 1, 0, steps).long()
    for i, t in enumerate(times):
        a = abar[t]                                         # 0-d, host
        b = abar[times[i + 1]] if i + 1 < steps else torch.tensor(1.0)
        eps = model(torch.cat([x, (t / T).to(x).expand(len(x), 1)], 1))
        x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
        x = b.sqrt() * x0 + (1 - b).sqrt() * eps
    return x


torch.manual_seed(27)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2)).to(device)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
data = torch.stack([torch.arange(8.0).sin(), torch.arange(8.0).cos()], 1).to(device)
for it in range(12):
    t = (torch.arange(8, device=device) + it) % T
    noise = torch.cos(data * 5)
    xt = add_noise(data, t, noise)
    loss = (model(torch.cat([xt, (t / T).unsqueeze(1)], 1)) - noise).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("%.4f %.4f" % (loss.item(), ddim(model, torch.ones(3, 2, device=device)).mean().item()))
