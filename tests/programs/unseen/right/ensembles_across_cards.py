"""Members of an ensemble on different cards (as many as there are); votes are counted on the host."""
import copy
import itertools

import torch
from torch import nn


def cards():
    n = torch.cuda.device_count()
    return [torch.device("cuda", i) for i in range(n)] or [torch.device("cpu")]


class Member:
    def __init__(self, net, device, seed):
        self.net, self.device = net.to(device), device
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.3)
        self.generator = torch.Generator().manual_seed(seed)  # draws rows on the host

    def fit(self, x, y, steps):
        for _ in range(steps):
            rows = torch.randint(len(x), (12,), generator=self.generator)
            xb, yb = x[rows].to(self.device), y[rows].to(self.device)
            loss = nn.functional.cross_entropy(self.net(xb), yb)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def vote(self, x):
        return self.net(x.to(self.device)).softmax(1)


def soup(members):
    """One model of all: weights are averaged where the first one lives."""
    first = members[0]
    mixed = copy.deepcopy(first.net)
    with torch.no_grad():
        for p, *others in zip(mixed.parameters(), *(m.net.parameters() for m in members)):
            p.copy_(sum(o.to(p.device) for o in others) / len(others))
        for b, *others in zip(mixed.buffers(), *(m.net.buffers() for m in members)):
            b.copy_(others[-1])  # across cards: a copy
    return mixed


def main():
    torch.manual_seed(8)
    x = torch.sin(torch.arange(150.0) * 0.37).view(30, 5)
    y = (x[:, 0] > x[:, 1]).long()
    base = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    places = itertools.cycle(cards())
    members = [Member(copy.deepcopy(base), device, seed) for seed, device in zip(range(3), places)]
    print([round(m.fit(x, y, 5), 4) for m in members])
    for m in members:
        m.net.eval()
    votes = torch.stack([m.vote(x).cpu() for m in members])
    print("agree", votes.argmax(2).eq(votes.argmax(2)[0]).all(0).float().mean().item())
    gathered = torch.zeros(30, 2, device=members[-1].device)
    for m in members:
        gathered += m.vote(x).to(gathered.device)
    print("accuracy", round((gathered.argmax(1).cpu() == y).float().mean().item(), 3))
    mixed = soup(members)
    mixed.eval()
    out = mixed(x.to(members[0].device))
    print(f"soup {nn.functional.cross_entropy(out, y.to(out.device)).item():.4f}")
    # a copy_ into part of a tensor on another card, and the way back
    board = torch.zeros(3, 30, device=members[-1].device)
    for row, m in zip(board, members):
        row.copy_(m.vote(x)[:, 1])
    report = torch.empty(3, 30)
    report[:] = board
    print(f"{report.mean().item():.4f} {(report - votes[..., 1]).abs().max().item():.6f}")


main()
