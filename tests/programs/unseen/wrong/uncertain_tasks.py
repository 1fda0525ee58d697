"""Depth, edges and category from one trunk; heads on two cards, losses weighed by learned noise."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiTask(nn.Module):
    def __init__(self, n_in=10, width=24, kinds=3):
        super().__init__()
        self.near, self.far = torch.device("cuda:0"), torch.device("cuda:1")
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.depth = nn.Linear(width, 1)
        self.edges = nn.Linear(width, 4)
        self.kind = nn.Linear(width, kinds)

    def place(self):
        self.trunk.to(self.near)
        self.depth.to(self.near)
        self.edges.to(self.far)
        self.kind.to(self.far)
        return self

    def forward(self, x):
        h = self.trunk(x.to(self.near))
        g = h.to(self.far)
        return {"depth": self.depth(h).squeeze(1), "edges": self.edges(g), "kind": self.kind(g)}


class UncertaintyWeights(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        losses = torch.stack(losses)  # RAISES: 2
        return (torch.exp(-self.log_var) * losses + 0.5 * self.log_var).sum()  # RAISES: 1


class Criterion:
    def __init__(self, model, edge_rate):
        self.model = model
        self.weigh = UncertaintyWeights(3)  # BUG 1: any culprit=self.weigh|self.weigh.log_var
        # FIX: self.weigh = UncertaintyWeights(3).to(model.near)
        self.edge_weight = ((1 - edge_rate) / edge_rate).to(model.near)  # BUG 3: any culprit=self.edge_weight
        # FIX: self.edge_weight = ((1 - edge_rate) / edge_rate).to(model.far)

    def parts(self, out, want):
        depth = F.smooth_l1_loss(out["depth"], want["depth"].to(self.model.near))
        edges = F.binary_cross_entropy_with_logits(out["edges"], want["edges"].to(self.model.far), pos_weight=self.edge_weight)  # RAISES: 3
        kind = F.cross_entropy(out["kind"], want["kind"].to(self.model.far))
        return [depth, edges, kind]

    def __call__(self, out, want):
        parts = self.parts(out, want)  # BUG 2: any culprit=parts
        # FIX: parts = [p.to(self.model.near) for p in self.parts(out, want)]
        return self.weigh(parts), [p.item() for p in parts]


def scenes(n, gen):
    x = torch.randn(n, 10, generator=gen)
    return x, {
        "depth": x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=gen),
        "edges": (x[:, 2:6] > 0.7).float(),
        "kind": x[:, 6:9].argmax(1),
    }


@torch.no_grad()
def evaluate(model, x, want):
    out = model(x)
    depth = (out["depth"].cpu() - want["depth"]).abs().mean()
    kind = (out["kind"].argmax(1) == want["kind"]).float().mean()  # BUG 4: any  # RAISES: 4
    # FIX: kind = (out["kind"].argmax(1).cpu() == want["kind"]).float().mean()
    return depth.item(), kind.item()


def main():
    torch.manual_seed(101)
    gen = torch.Generator().manual_seed(101)
    x, want = scenes(160, gen)
    model = MultiTask().place()
    criterion = Criterion(model, want["edges"].mean(0))
    opt = torch.optim.AdamW([*model.parameters(), *criterion.weigh.parameters()], lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=20)
    for step in range(20):
        loss, parts = criterion(model(x), want)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 5 == 4:
            print(f"{step + 1} total {loss.item():.4f} parts {[round(p, 4) for p in parts]}")
    print("depth error %.4f kind accuracy %.3f" % evaluate(model, *scenes(64, gen)))
    print("log variances", [round(v, 4) for v in criterion.weigh.log_var.tolist()])


main()
