"""Denoising diffusion of 1-D signals, schedule kept in a dataclass."""
import dataclasses
import math
import torch
import torch.nn as nn


@dataclasses.dataclass
class Schedule:
    betas: torch.Tensor
    alphas: torch.Tensor
    abar: torch.Tensor

    @classmethod
    def linear(cls, steps, lo=1e-4, hi=0.05):
        betas = torch.linspace(lo, hi, steps)
        alphas = 1.0 - betas
        return cls(betas, alphas, alphas.cumprod(0))

    def to(self, device):
        return dataclasses.replace(
            self, **{f.name: getattr(self, f.name).to(device) for f in dataclasses.fields(self)}
        )


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000) * torch.arange(half) / half)  # BUG: any culprit=freqs
    # FIX: freqs = torch.exp(-math.log(1000) * torch.arange(half, device=t.device) / half)
    args = t[:, None].float() * freqs[None]  # RAISES: 1
    return torch.cat([args.cos(), args.sin()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, length, width=32, tdim=8):
        super().__init__()
        self.tdim = tdim
        self.inp = nn.Linear(length + tdim, width)
        self.out = nn.Linear(width, length)

    def forward(self, x, t):
        h = torch.cat([x, timestep_embedding(t, self.tdim)], dim=-1)  # RAISES: 2
        return self.out(torch.relu(self.inp(h)))


def extract(table, t, shape):
    return table[t].view(-1, *([1] * (len(shape) - 1)))  # RAISES: 3


def q_sample(sched, x0, t, noise):
    a = extract(sched.abar, t, x0.shape)
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


@torch.no_grad()
def p_sample_loop(model, sched, shape, device):
    x = torch.zeros(shape, device=device)
    for i in reversed(range(len(sched.betas))):
        t = torch.full((shape[0],), i, dtype=torch.long)  # BUG: any culprit=t
        # FIX: t = torch.full((shape[0],), i, dtype=torch.long, device=device)
        eps = model(x, t)
        coef = sched.betas[i] / (1 - sched.abar[i]).sqrt()
        x = (x - coef * eps) / sched.alphas[i].sqrt()
    return x


def main():
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sched = Schedule.linear(20)
    sched.to(device)  # BUG: any culprit=sched.abar
    # FIX: sched = sched.to(device)
    model = Denoiser(6).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    base = torch.sin(torch.arange(48.0)).view(8, 6).to(device)
    for it in range(15):
        t = (torch.arange(8, device=device) * 7 + it) % 20
        noise = torch.cos(base * 3 + it)
        loss = (model(q_sample(sched, base, t, noise), t) - noise).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    sample = p_sample_loop(model, sched, (2, 6), device)
    print(f"{loss.item():.4f} {sample.abs().mean().item():.4f}")


if __name__ == "__main__":
    main()
