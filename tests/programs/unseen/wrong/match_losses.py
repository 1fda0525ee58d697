"""Multi-label classifier whose loss is chosen from a config by structural matching."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Task:
    name: str
    loss: dict
    device: str = "cuda"
    prior: torch.Tensor = field(default_factory=lambda: torch.tensor([0.6, 0.3, 0.1, 0.1, 0.05]))

    def __post_init__(self):
        self.prior = self.prior.float()  # BUG: any culprit=self.prior
        # FIX: self.prior = self.prior.to(self.device)


def build_loss(task):
    match task.loss:
        case {"kind": "bce", "balance": True}:
            pos_weight = (1 - task.prior) / task.prior  # ALSO: 1
            return lambda z, y: F.binary_cross_entropy_with_logits(z, y, pos_weight=pos_weight.clamp(max=4.0))  # RAISES: 1  # ALSO: 1
        case {"kind": "focal", "gamma": float(gamma) | int(gamma), **rest}:
            alpha = torch.as_tensor(rest.get("alpha", [0.5] * 5))  # BUG: any culprit=alpha
            # FIX: alpha = torch.as_tensor(rest.get("alpha", [0.5] * 5), device=task.device)

            def focal(z, y):
                p = torch.where(y > 0.5, z.sigmoid(), 1 - z.sigmoid())
                a = torch.where(y > 0.5, alpha, 1 - alpha)  # RAISES: 2
                return (-a * (1 - p) ** gamma * p.clamp_min(1e-6).log()).mean()

            return focal
        case {"kind": "margin", "pairs": [*pairs]}:
            better, worse = torch.tensor(pairs).T

            def ranked(z, y):
                order = F.relu(0.2 - z[:, better] + z[:, worse]).mean()
                return F.binary_cross_entropy_with_logits(z, y) + 0.1 * order

            return ranked
        case {"kind": other}:
            raise ValueError(f"unknown loss {other}")


class LabelNet(nn.Module):
    def __init__(self, width, prior):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(32, len(prior))
        self.head.bias.data.copy_((prior / (1 - prior)).log())

    def forward(self, x):
        return self.head(self.trunk(x))


def synthesise(n, prior, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(14, len(prior), generator=g)
    x = torch.randn(n, 14, generator=g)
    z = x @ w / 2 + torch.logit(prior)
    return x, (torch.rand(z.shape, generator=g) < z.sigmoid()).float()


def average_precision(z, y):
    order = z.argsort(dim=0, descending=True)
    hits = y.gather(0, order)
    rank = torch.arange(1, len(y) + 1).unsqueeze(1)  # BUG: any culprit=rank
    # FIX: rank = torch.arange(1, len(y) + 1, device=hits.device).unsqueeze(1)
    return ((hits.cumsum(0) / rank) * hits).sum(0) / hits.sum(0).clamp_min(1)  # RAISES: 3


TASKS = [
    Task("balanced", {"kind": "bce", "balance": True}),
    Task("focal", {"kind": "focal", "gamma": 2, "alpha": [0.3, 0.5, 0.7, 0.7, 0.8]}),
    Task("ranked", {"kind": "margin", "pairs": [[0, 1], [1, 2], [2, 4]]}),
]


def main():
    for task in TASKS:
        torch.manual_seed(50)
        x, y = (t.to(task.device) for t in synthesise(160, task.prior.cpu(), seed=8))
        net = LabelNet(14, task.prior).to(task.device)
        loss_fn = build_loss(task)
        opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        for _ in range(15):
            loss = loss_fn(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        ap = average_precision(net.eval()(x).detach(), y)
        print(task.name, f"{loss.item():.4f}", [round(v, 3) for v in ap.tolist()])


main()
