"""Data parallel by hand on two cards: scatter, replicate, reduce, and a quantised export."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cards", nargs="+", default=["cuda:0", "cuda:1"])
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--steps", type=int, default=12)
    return ap.parse_args([])


def build():
    return nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 3))


class Replicas:
    def __init__(self, cards):
        self.cards = [torch.device(c) for c in cards]
        self.nets = [build().to(c) for c in self.cards]
        self.main = self.nets[0]
        self.broadcast()

    @torch.no_grad()
    def broadcast(self):
        for net in self.nets[1:]:
            for dst, src in zip(net.parameters(), self.main.parameters()):
                dst.copy_(src)

    def scatter(self, *tensors):
        parts = zip(*(t.chunk(len(self.cards)) for t in tensors))
        return [[t.to(c) for t in part] for part, c in zip(parts, self.cards)]

    @torch.no_grad()
    def reduce(self):
        for net in self.nets[1:]:
            for dst, src in zip(self.main.parameters(), net.parameters()):
                dst.grad += src.grad  # BUG: any culprit=src.grad  # RAISES: 1
                # FIX: dst.grad += src.grad.to(dst.device)
                src.grad = None


def train_step(reps, opt, x, y, w, smooth):
    share = w.sum()
    opt.zero_grad()
    total, hits = 0.0, []
    for net, (xb, yb, wb) in zip(reps.nets, reps.scatter(x, y, w)):
        out = net(xb)
        soft = (1 - 0.1) * F.one_hot(yb, 3) + 0.1 * smooth  # BUG: any culprit=smooth  # RAISES: 2
        # FIX: soft = (1 - 0.1) * F.one_hot(yb, 3) + 0.1 * smooth.to(yb.device)
        loss = -((soft * F.log_softmax(out, 1)).sum(1) * wb).sum() / share
        loss.backward()
        total += loss.item()
        hits.append((out.argmax(1) == yb).sum())
    reps.reduce()
    opt.step()
    reps.broadcast()
    right = torch.stack(hits).sum()  # BUG 3: any culprit=hits  # RAISES: 3
    # FIX: right = torch.stack([h.cpu() for h in hits]).sum()
    return total, right.item() / len(x)


class Int8Linear:
    """Per-channel absmax codes with a lookup table for the values."""

    def __init__(self, layer):
        w = layer.weight.detach()
        self.scale = w.abs().amax(1, keepdim=True) / 127
        self.codes = (w / self.scale).round().long() + 127
        self.levels = torch.arange(-127, 128).float()  # BUG 4: any culprit=self.levels
        # FIX: self.levels = torch.arange(-127, 128, device=w.device).float()
        self.bias = layer.bias.detach()

    def __call__(self, x):
        w = self.levels[self.codes] * self.scale  # RAISES: 4
        return F.linear(x, w, self.bias)


def wells(n, gen):
    x = torch.randn(n, 6, generator=gen)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] * x[:, 3] > 0.3).long()
    return x, y, 0.5 + torch.rand(n, generator=gen)


def main():
    args = parse()
    torch.manual_seed(111)
    gen = torch.Generator().manual_seed(111)
    reps = Replicas(args.cards)
    x, y, w = wells(192, gen)
    smooth = (torch.bincount(y, minlength=3) / len(y)).to(reps.cards[0])
    opt = torch.optim.Adam(reps.main.parameters(), lr=1e-2)
    for step in range(args.steps):
        at = torch.randperm(len(x), generator=gen)[:args.batch]
        xb, yb, wb = x[at], y[at], w[at]
        loss, acc = train_step(reps, opt, xb, yb, wb, smooth)
        if step % 4 == 3:
            print(f"step {step + 1} loss {loss:.4f} acc {acc:.3f}")
    first, act, last = Int8Linear(reps.main[0]), reps.main[1], Int8Linear(reps.main[2])
    with torch.no_grad():
        xa = x.to(reps.cards[0])
        gap = (last(act(first(xa))) - reps.main(xa)).abs().max()
    print(f"int8 gap {gap.item():.5f}")


if __name__ == "__main__":
    main()
