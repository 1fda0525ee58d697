"""A hand-written optimiser with Kronecker preconditioners and grafting."""
import torch
from torch import nn
from torch.optim import Optimizer


def inverse_root(mat, power, eps=1e-4):
    vals, vecs = torch.linalg.eigh(mat)
    return (vecs * vals.clamp_min(eps).pow(-1.0 / power)) @ vecs.T


class MiniShampoo(Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9, every=5, warmup=4):
        super().__init__(params, dict(lr=lr, momentum=momentum, every=every))
        self.ramp = torch.linspace(0.1, 1.0, warmup)

    def _init(self, p, st):
        st["step"] = 0
        st["buf"] = torch.zeros(p.shape)  # BUG: any culprit=st["buf"]
        # FIX: st["buf"] = torch.zeros(p.shape, device=p.device)
        if p.ndim == 2:
            st["stats"] = [1e-3 * torch.eye(d, device=p.device) for d in p.shape]
            st["roots"] = [torch.eye(d) for d in p.shape]  # BUG: any culprit=st["roots"]
            # FIX: st["roots"] = [torch.eye(d, device=p.device) for d in p.shape]

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    self._init(p, st)
                direction = self._precondition(p.grad, st, group["every"])
                st["buf"].mul_(group["momentum"]).add_(direction)  # RAISES: 1
                heat = self.ramp[min(st["step"], len(self.ramp) - 1)]
                p.sub_(group["lr"] * heat * st["buf"])
                st["step"] += 1
        return loss

    def _precondition(self, g, st, every):
        if g.ndim != 2:
            return g
        left, right = st["stats"]
        left.add_(g @ g.T)
        right.add_(g.T @ g)
        if st["step"] % every == every - 1:
            st["roots"] = [inverse_root(left, 4), inverse_root(right, 4)]
        shaped = st["roots"][0] @ g @ st["roots"][1]  # RAISES: 2
        return shaped * (g.norm() / shaped.norm().clamp_min(1e-12))


class DigitLike:
    """Noisy copies of random glyphs."""

    def __init__(self, classes, width, device, seed=2):
        self.g = torch.Generator().manual_seed(seed)
        self.glyphs = (torch.rand(classes, width, generator=self.g) > 0.5).float().to(device)
        self.device = device

    def batch(self, n):
        y = torch.randint(len(self.glyphs), (n,), generator=self.g)
        noise = torch.randn(n, self.glyphs.shape[1], generator=self.g)  # BUG: any culprit=noise
        # FIX: noise = torch.randn(n, self.glyphs.shape[1], generator=self.g).to(self.device)
        return self.glyphs[y] + 0.6 * noise, y.to(self.device)  # RAISES: 3


def main():
    torch.manual_seed(20)
    device = torch.device("cuda")
    data = DigitLike(6, 20, device)
    net = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 6)).to(device)
    opt = MiniShampoo(net.parameters(), lr=0.15)
    for it in range(24):
        x, y = data.batch(48)

        def closure():
            opt.zero_grad()
            with torch.enable_grad():
                out = nn.functional.cross_entropy(net(x), y)
            out.backward()
            return out

        loss = opt.step(closure)
        if it % 6 == 5:
            print(it + 1, f"{loss.item():.4f}")
    x, y = data.batch(200)
    print("accuracy", round((net(x).argmax(1) == y).float().mean().item(), 3))


main()
