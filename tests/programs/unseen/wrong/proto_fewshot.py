"""Prototypical networks, episodes from a registry of toy domains."""
import torch
from torch import nn

DOMAINS = {}


def domain(name):
    def wrap(fn):
        DOMAINS[name] = fn
        return fn
    return wrap


@domain("waves")
def waves(c, n):
    t = torch.arange(10.0)
    return torch.stack([torch.sin(t * (c + 1) * 0.3 + 0.05 * i) for i in range(n)])


@domain("ramps")
def ramps(c, n):
    t = torch.arange(10.0) / 10
    return torch.stack([(t * (c + 1) + 0.02 * i) % 1.0 for i in range(n)])


def episode(name, way=3, shot=2, query=3):
    sup, qry, lab = [], [], []
    for c in range(way):
        x = DOMAINS[name](c, shot + query)
        sup.append(x[:shot])
        qry.append(x[shot:])
        lab += [c] * query
    return torch.stack(sup), torch.cat(qry), torch.tensor(lab)


class ProtoNet(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.embed = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
        self.to(device)

    def prototypes(self, support):
        way, shot, _ = support.shape
        return self.embed(support.flatten(0, 1)).view(way, shot, -1).mean(1)

    def forward(self, support, query):
        protos = self.prototypes(support.to(self.device))
        q = self.embed(query)  # BUG: any culprit=query # RAISES: 1
        # FIX: q = self.embed(query.to(self.device))
        return -torch.cdist(q, protos).pow(2)


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = ProtoNet(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    bank = []
    for it in range(12):
        name = sorted(DOMAINS)[it % 2]
        sup, qry, lab = episode(name)
        logits = net(sup, qry)  # ALSO: 1
        loss = nn.functional.cross_entropy(logits, lab.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it >= 10:
            with torch.no_grad():
                bank.append(net.prototypes(sup.to(device)).cpu())  # ALSO: 2
    stored = torch.cat(bank)  # ALSO: 2
    probe = net.embed(DOMAINS["waves"](1, 2).to(device)).detach()
    nearest = torch.cdist(probe, stored).argmin(1)  # BUG: any culprit=stored # RAISES: 2
    # FIX: nearest = torch.cdist(probe, stored.to(device)).argmin(1)
    print("%.4f" % loss.item(), nearest.tolist())


main()
