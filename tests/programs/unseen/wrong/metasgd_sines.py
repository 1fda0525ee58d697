"""Meta-SGD on sine regression: learned per-weight inner learning rates."""
import torch
from torch import nn
from torch.func import functional_call


class SineTasks:
    """Endless stream of (support, query) pairs."""

    def __init__(self, shots, device, seed=0):
        self.shots, self.device = shots, device
        self.gen = torch.Generator().manual_seed(seed)  # BUG: any culprit=self.gen
        # FIX: self.gen = torch.Generator(device=device).manual_seed(seed)

    def _uniform(self, lo, hi, *size):
        return lo + (hi - lo) * torch.rand(*size, device=self.device, generator=self.gen)  # RAISES: 1

    def __iter__(self):
        return self

    def __next__(self):
        amp, phase = self._uniform(0.5, 2.0, 1), self._uniform(0.0, 3.14, 1)
        x = self._uniform(-4.0, 4.0, 2 * self.shots, 1)
        y = amp * torch.sin(x + phase)
        return (x[: self.shots], y[: self.shots]), (x[self.shots:], y[self.shots:])


class MetaSGD(nn.Module):
    def __init__(self, net, init_lr=0.03):
        super().__init__()
        self.net = net
        self.names = [n for n, _ in net.named_parameters()]
        self.rates = [nn.Parameter(torch.full_like(p, init_lr)) for p in net.parameters()]  # BUG: any culprit=self.rates
        # FIX: self.rates = nn.ParameterList([nn.Parameter(torch.full_like(p, init_lr)) for p in net.parameters()])
        self.clip = 5.0

    def adapt(self, x, y, steps):
        weights = dict(self.net.named_parameters())
        for _ in range(steps):
            loss = nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y)  # RAISES: 3
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {
                name: w - rate * g.clamp(-self.clip, self.clip)  # RAISES: 2
                for (name, w), rate, g in zip(weights.items(), self.rates, grads)
            }
        return weights

    def forward(self, support, query, steps=1):
        weights = self.adapt(*support, steps)
        x, y = query
        return nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y)


def evaluate(meta, device):
    """Error on one fixed task after three inner steps."""
    xs = torch.linspace(-4, 4, 20).unsqueeze(1)  # BUG: any culprit=xs
    # FIX: xs = torch.linspace(-4, 4, 20, device=device).unsqueeze(1)
    ys = 1.5 * torch.sin(xs + 0.7)
    return meta((xs[::2], ys[::2]), (xs[1::2], ys[1::2]), steps=3).item()


def main():
    torch.manual_seed(9)
    device = torch.device("cuda")
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    meta = MetaSGD(net).to(device)
    learnable = list(meta.net.parameters()) + list(meta.rates)
    opt = torch.optim.Adam(learnable, lr=5e-3)
    tasks = SineTasks(8, device, seed=31)
    for it in range(15):
        losses = [meta(*next(tasks)) for _ in range(4)]
        loss = torch.stack(losses).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 5 == 4:
            print(f"{it + 1} meta {loss.item():.4f} held-out {evaluate(meta, device):.4f}")


main()
