"""A net cut over two cards, feature taps by hooks, integrated gradients and a concept direction."""
import torch
import torch.nn as nn
import torch.nn.functional as F

A, B = torch.device("cuda:0"), torch.device("cuda:1")


class Split(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 8, 3, 2, 1), nn.ReLU()).to(A)
        self.high = nn.Sequential(nn.Linear(8 * 9, 16), nn.ReLU(), nn.Linear(16, classes)).to(B)

    def forward(self, x):
        h = self.low(x).flatten(1)  # BUG: any culprit=h
        # FIX: h = self.low(x).flatten(1).to(B)
        return self.high(h)  # RAISES: 1  # ALSO: 1


class Taps:
    """Remembers what the given layers put out in the last forward pass."""

    def __init__(self, **layers):
        self.seen = {}
        self.handles = [m.register_forward_hook(self.keep(name)) for name, m in layers.items()]

    def keep(self, name):
        def hook(module, args, out):
            self.seen[name] = out
        return hook

    def sparsity(self):
        total = 0.0
        for out in self.seen.values():  # ALSO: 2
            total = total + out.abs().mean()  # BUG: any culprit=total|out  # RAISES: 2
            # FIX: total = total + out.abs().mean().to(A)
        return total

    def close(self):
        for h in self.handles:
            h.remove()


def bars(n, gen):
    y = torch.randint(3, (n,), generator=gen)
    x = 0.3 * torch.rand(n, 1, 12, 12, generator=gen)
    for i, k in enumerate(y.tolist()):
        at = int(torch.randint(2, 9, (), generator=gen))
        if k != 1:
            x[i, 0, at:at + 2] += 1.0
        if k != 0:
            x[i, 0, :, at:at + 2] += 1.0
    return x, y


def integrated_gradients(net, x, target, points=6):
    base = torch.zeros_like(x)
    path = torch.linspace(0.1, 1.0, points).view(-1, 1, 1, 1)  # BUG: any culprit=path
    # FIX: path = torch.linspace(0.1, 1.0, points, device=x.device).view(-1, 1, 1, 1)
    xs = (base + path * (x - base)).requires_grad_()  # RAISES: 3
    score = net(xs)[:, target].sum()
    g, = torch.autograd.grad(score, xs)
    return (g.mean(0) * (x - base)[0]).sum()


def concept(net, taps, x, has):
    with torch.no_grad():
        net(x)
    feat = taps.seen["high"].detach().cpu()  # ALSO: 4
    return F.normalize(feat[has].mean(0) - feat[~has].mean(0), dim=0)


def main():
    torch.manual_seed(61)
    gen = torch.Generator().manual_seed(61)
    x, y = bars(48, gen)
    net = Split()
    taps = Taps(low=net.low[1], high=net.high[1])
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    xa, yb = x.to(A), y.to(B)
    for step in range(20):
        loss = F.cross_entropy(net(xa), yb)
        loss = loss + 0.01 * taps.sparsity().to(B)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 4:
            print(f"{step + 1} loss {loss.item():.4f}")
    cav = concept(net, taps, xa, y == 1)  # BUG: any culprit=cav
    # FIX: cav = concept(net, taps, xa, y == 1).to(B)
    out = net(xa)
    g, = torch.autograd.grad(out[:, 1].sum(), taps.seen["high"])
    print(f"concept sensitivity {((g @ cav) > 0).float().mean().item():.3f}")  # RAISES: 4
    print(f"attribution {integrated_gradients(net, xa[:1], int(y[0])).item():.4f}")
    taps.close()


main()
