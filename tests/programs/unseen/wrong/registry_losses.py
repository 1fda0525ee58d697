"""Losses, metrics and models by name, from one nested dict."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "device": "cuda" if torch.cuda.is_available() else "cpu",
    "seed": 8,
    "model": {"type": "mlp", "sizes": [6, 20, 4]},
    "losses": [
        {"type": "focal", "weight": 1.0, "alpha": [0.4, 0.2, 0.2, 0.2], "gamma": 2.0},
        {"type": "smooth", "weight": 0.5, "classes": 4, "eps": 0.1},
    ],
    "metrics": [{"type": "confusion", "classes": 4}, {"type": "calibration", "bins": 5}],
    "train": {"lr": 0.05, "epochs": 4, "batch": 10},
}

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls

    return wrap


def build(cfg, **more):
    kwargs = {k: v for k, v in cfg.items() if k not in ("type", "weight")}
    return REGISTRY[cfg["type"]](**kwargs, **more)


@register("mlp")
class MLP(nn.Sequential):
    def __init__(self, sizes):
        layers = []
        for i, o in zip(sizes, sizes[1:]):
            layers += [nn.Linear(i, o), nn.GELU()]
        super().__init__(*layers[:-1])


@register("focal")
class Focal(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.gamma = gamma
        self.alpha = torch.as_tensor(alpha)  # BUG: any culprit=self.alpha
        # FIX: self.register_buffer("alpha", torch.as_tensor(alpha))

    def forward(self, logits, y):
        logp = logits.log_softmax(-1)
        pick = logp.gather(1, y[:, None]).squeeze(1)
        a = self.alpha.gather(0, y)  # RAISES: 1
        return -(a * (1 - pick.exp()) ** self.gamma * pick).mean()


@register("smooth")
class Smooth(nn.Module):
    def __init__(self, classes, eps):
        super().__init__()
        self.classes, self.eps = classes, eps

    def forward(self, logits, y):
        soft = torch.full((len(y), self.classes), self.eps / self.classes)  # BUG: any culprit=soft
        # FIX: soft = torch.full((len(y), self.classes), self.eps / self.classes, device=y.device)
        soft.scatter_(1, y[:, None], 1 - self.eps + self.eps / self.classes)  # RAISES: 2
        return -(soft * logits.log_softmax(-1)).sum(1).mean()


@register("confusion")
class Confusion:
    def __init__(self, classes):
        self.table = torch.zeros(classes, classes, dtype=torch.long)  # ALSO: 3
        self.classes = classes

    def update(self, logits, y):
        flat = y * self.classes + logits.argmax(1)
        counts = torch.bincount(flat, minlength=self.classes**2).view(self.classes, -1)
        self.table += counts  # BUG: any culprit=counts # RAISES: 3
        # FIX: self.table += counts.cpu()

    def result(self):
        return self.table.diag().sum().item() / max(1, self.table.sum().item())


@register("calibration")
class Calibration:
    def __init__(self, bins):
        self.edges = torch.linspace(0, 1, bins + 1)  # ALSO: 4
        self.gaps = []

    def update(self, logits, y):
        conf, pred = logits.softmax(-1).max(1)
        which = torch.bucketize(conf, self.edges)  # BUG: any culprit=self.edges # RAISES: 4
        # FIX: which = torch.bucketize(conf, self.edges.to(conf.device))
        hit = (pred == y).float()
        rows = [(conf[which == b].mean() - hit[which == b].mean()).abs() for b in which.unique()]
        self.gaps.append(torch.stack(rows).mean())

    def result(self):
        return torch.stack(self.gaps).mean().item()


def run(config):
    torch.manual_seed(config["seed"])
    device = config["device"]
    x = torch.sin(torch.arange(240.0) * 0.7).view(40, 6)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 3] > 0.2).long()
    model = build(config["model"]).to(device)
    losses = [(c["weight"], build(c).to(device)) for c in config["losses"]]
    metrics = {c["type"]: build(c) for c in config["metrics"]}
    opt = torch.optim.Adam(model.parameters(), lr=config["train"]["lr"])
    for epoch in range(config["train"]["epochs"]):
        for xb, yb in zip(x.split(config["train"]["batch"]), y.split(config["train"]["batch"])):
            xb, yb = xb.to(device), yb.to(device)
            logits = model(xb)
            loss = sum(w * f(logits, yb) for w, f in losses)
            opt.zero_grad()
            loss.backward()
            opt.step()
            for m in metrics.values():
                m.update(logits.detach(), yb)
        print(epoch, f"{loss.item():.4f}", {k: round(m.result(), 3) for k, m in metrics.items()})


run(CONFIG)
