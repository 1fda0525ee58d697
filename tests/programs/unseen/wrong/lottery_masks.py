"""Iterative magnitude pruning with rewinding to the initial weights; gradients masked by hooks."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Pruner:
    def __init__(self, model, start):
        self.model, self.start = model, start
        self.masks = {k: torch.ones(p.shape) for k, p in model.named_parameters() if p.dim() > 1}  # BUG 1: any culprit=self.masks
        # FIX: self.masks = {k: torch.ones_like(p) for k, p in model.named_parameters() if p.dim() > 1}
        for k, p in model.named_parameters():
            if k in self.masks:
                p.register_hook(lambda g, k=k: g * self.masks[k])  # RAISES: 1

    @torch.no_grad()
    def prune(self, share):
        """Drops the smallest weights among those which are still alive."""
        named = dict(self.model.named_parameters())
        alive = torch.cat([named[k].abs()[m > 0] for k, m in self.masks.items()])
        limit = alive.kthvalue(max(1, int(share * alive.numel()))).values
        for k, m in self.masks.items():
            self.masks[k] = torch.where(named[k].abs() > limit, m, torch.zeros_like(m))

    @torch.no_grad()
    def rewind(self):
        for k, p in self.model.named_parameters():
            if k in self.masks:
                p.copy_(self.start[k] * self.masks[k])  # RAISES: 2
            else:
                p.copy_(self.start[k])

    def density(self):
        alive = torch.stack([m.mean() for m in self.masks.values()])
        sizes = torch.tensor([float(m.numel()) for m in self.masks.values()])  # BUG 3: any culprit=sizes
        # FIX: sizes = torch.tensor([float(m.numel()) for m in self.masks.values()], device=alive.device)
        return ((alive * sizes).sum() / sizes.sum()).item()  # RAISES: 3


def make_net():
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def parity_blocks(n, gen):
    bits = torch.randint(2, (n, 12), generator=gen)
    y = 2 * (bits[:, 0] ^ bits[:, 1]) + (bits[:, 2] | bits[:, 3])
    return bits.float() * 2 - 1, y


def train(net, x, y, steps):
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    for i in range(steps):
        at = torch.arange(i * 32, (i + 1) * 32) % len(x)
        loss = F.cross_entropy(net(x[at]), y[at])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(33)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = make_net()
    start = copy.deepcopy(net.state_dict())  # BUG 2: any culprit=start
    # FIX: start = copy.deepcopy(net.to(device).state_dict())
    net = net.to(device)  # ALSO: 2
    x, y = parity_blocks(256, torch.Generator().manual_seed(5))
    x, y = x.to(device), y.to(device)
    pruner = Pruner(net, start)
    for level in range(3):
        loss = train(net, x, y, 20)
        with torch.no_grad():
            acc = (net(x).argmax(1) == y).float().mean().item()
        print(f"level {level} density {pruner.density():.3f} loss {loss:.4f} acc {acc:.3f}")
        pruner.prune(0.3)
        pruner.rewind()
    print(f"final loss {train(net, x, y, 20):.4f} density {pruner.density():.3f}")


main()
