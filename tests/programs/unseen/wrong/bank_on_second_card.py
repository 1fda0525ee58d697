"""Metric learning with a large memory of old embeddings kept on the other card."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Setup:
    net_dev: str = "cuda:0"
    bank_dev: str = "cuda:1"
    classes: int = 4
    dim: int = 8
    slots: int = 96


class Bank:
    def __init__(self, cfg):
        self.feat = torch.zeros(cfg.slots, cfg.dim, device=cfg.bank_dev)
        self.lab = torch.full((cfg.slots,), -1)  # BUG: any culprit=self.lab
        # FIX: self.lab = torch.full((cfg.slots,), -1, device=cfg.bank_dev)
        self.at = 0

    def push(self, z, y):
        end = self.at + len(z)
        self.feat[self.at:end] = z.detach()
        self.lab[self.at:end] = y
        self.at = end % len(self.feat)

    def lookup(self, z, y):
        """Similarities of z with all slots, and which of them are of the same class."""
        z, y = z.to(self.feat.device), y.to(self.feat.device)
        sim = z @ self.feat.t()
        same = y.unsqueeze(1) == self.lab  # RAISES: 1
        used = (self.lab >= 0).unsqueeze(0)
        return sim, same & used, used & ~same


def contrast(sim, pos, neg, margin=0.4):
    pull = (1 - sim).clamp(min=0) * pos
    push = (sim - margin).clamp(min=0) * neg
    return pull.sum() / pos.sum().clamp(min=1) + push.sum() / neg.sum().clamp(min=1)


class InBatch(nn.Module):
    """Proxies for the classes, next to the network."""

    def __init__(self, cfg):
        super().__init__()
        self.proxy = nn.Parameter(F.normalize(torch.randn(cfg.classes, cfg.dim), dim=1))

    def forward(self, z, y):
        return F.cross_entropy(z @ F.normalize(self.proxy, dim=1).t() / 0.2, y)  # RAISES: 2


def encoder(cfg):
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, cfg.dim))


def sample(n, centres, gen):
    y = torch.randint(len(centres), (n,), generator=gen)
    return centres[y] + 0.8 * torch.randn(n, centres.shape[1], generator=gen), y


@torch.no_grad()
def knn_accuracy(net, bank, x, y, cfg, k=7):
    z = F.normalize(net(x.to(cfg.net_dev)), dim=1).to(cfg.bank_dev)
    top, at = (z @ bank.feat.t()).topk(k, dim=1)
    votes = torch.zeros(len(z), cfg.classes, device=cfg.net_dev)  # BUG 4: any culprit=votes
    # FIX: votes = torch.zeros(len(z), cfg.classes, device=cfg.bank_dev)
    votes = votes.scatter_add(1, bank.lab[at].clamp(min=0), top)  # RAISES: 4
    return (votes.argmax(1).cpu() == y).float().mean().item()


def main():
    cfg = Setup()
    torch.manual_seed(44)
    gen = torch.Generator().manual_seed(44)
    centres = 1.5 * torch.randn(cfg.classes, 10, generator=gen)
    net, proxies, bank = encoder(cfg).to(cfg.net_dev), InBatch(cfg), Bank(cfg)  # BUG 2: any culprit=proxies
    # FIX: net, proxies, bank = encoder(cfg).to(cfg.net_dev), InBatch(cfg).to(cfg.net_dev), Bank(cfg)
    opt = torch.optim.SGD([*net.parameters(), *proxies.parameters()], lr=0.1, momentum=0.9)
    for step in range(18):
        x, y = sample(24, centres, gen)
        x, y = x.to(cfg.net_dev), y.to(cfg.net_dev)
        z = F.normalize(net(x), dim=1)
        loss = proxies(z, y)
        if step >= 4:
            extra = contrast(*bank.lookup(z, y))
            loss = torch.stack([loss, extra]).sum()  # BUG 3: any culprit=extra  # RAISES: 3
            # FIX: loss = torch.stack([loss, extra.to(loss.device)]).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        bank.push(z, y)
        if step % 6 == 5:
            print(f"step {step + 1} loss {loss.item():.4f}")
    print(f"knn {knn_accuracy(net, bank, *sample(64, centres, gen), cfg):.3f}")


main()
