"""Few-shot episodes: prototypes on one card, refined by soft k-means on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Cfg:
    main = "cuda:0"
    side = "cuda:1"
    way, shot, query, extra = 4, 3, 5, 6
    dim = 12


class Universe:
    """Many classes, each a random direction with its own spread."""

    def __init__(self, n_classes, n_in, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.centre = torch.randn(n_classes, n_in, generator=self.gen)

    def episode(self):
        c = Cfg
        kinds = torch.randperm(len(self.centre), generator=self.gen)[:c.way]
        draw = lambda k: (self.centre[kinds].unsqueeze(1) + 0.6 * torch.randn(c.way, k, self.centre.shape[1], generator=self.gen)).flatten(0, 1)
        ys = torch.arange(c.way).repeat_interleave(c.shot)
        yq = torch.arange(c.way).repeat_interleave(c.query)
        return draw(c.shot), ys, draw(c.query), yq, draw(c.extra)


def prototypes(z, y, way):
    total = torch.zeros(way, z.shape[1])  # BUG: any culprit=total
    # FIX: total = torch.zeros(way, z.shape[1], device=z.device)
    total = total.index_add(0, y, z)  # RAISES: 1
    return total / torch.bincount(y, minlength=way).unsqueeze(1)


class SoftKMeans(nn.Module):
    def __init__(self, rounds=2):
        super().__init__()
        self.rounds = rounds
        self.log_temp = nn.Parameter(torch.zeros(1))

    def forward(self, proto, extra, strength):
        proto, extra = proto.to(Cfg.side), extra.to(Cfg.side)
        anchor = proto
        for _ in range(self.rounds):
            r = torch.softmax(-torch.cdist(extra, proto) * self.log_temp.exp(), 1)  # RAISES: 2
            proto = (strength * anchor + r.t() @ extra) / (strength + r.sum(0).unsqueeze(1))
        return proto


class FewShot(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 24), nn.ReLU(), nn.Linear(24, Cfg.dim)).to(Cfg.main)
        self.refine = SoftKMeans()  # BUG: any culprit=self.refine
        # FIX: self.refine = SoftKMeans().to(Cfg.side)

    def forward(self, xs, ys, xq, extra):
        proto = prototypes(self.net(xs), ys, Cfg.way)
        proto = self.refine(proto, self.net(extra), strength=3.0)  # BUG: any culprit=proto
        # FIX: proto = self.refine(proto, self.net(extra), strength=3.0).to(Cfg.main)
        return -torch.cdist(self.net(xq), proto)  # RAISES: 3  # ALSO: 3


class Meter:
    def __init__(self):
        self.hits = torch.zeros(Cfg.way)
        self.n = 0

    def update(self, pred, y):
        hit = (pred == y).view(Cfg.way, -1).float().mean(1)
        self.hits += hit  # BUG: any culprit=hit  # RAISES: 4
        # FIX: self.hits += hit.cpu()
        self.n += 1

    def report(self):
        return [round(v, 3) for v in (self.hits / self.n).tolist()]


def main():
    torch.manual_seed(90)
    world = Universe(20, 8, seed=4)
    model = FewShot(8)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(16):
        xs, ys, xq, yq, extra = (t.to(Cfg.main) for t in world.episode())
        logits = model(xs, ys, xq, extra)
        loss = F.cross_entropy(logits, yq)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            print(f"episode {step + 1} loss {loss.item():.4f}")
    meter = Meter()
    with torch.no_grad():
        for _ in range(5):
            xs, ys, xq, yq, extra = (t.to(Cfg.main) for t in world.episode())
            meter.update(model(xs, ys, xq, extra).argmax(1), yq)
    print("accuracy per way", meter.report())


main()
