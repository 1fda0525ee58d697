"""Train, save on the host, resume; optimizer state and running statistics travel in the checkpoint."""
import os
import tempfile

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))


class Normalizer:
    """Keeps mean and variance of the inputs; not a module so that it can be pickled alone."""

    def __init__(self, mean, var):
        self.mean, self.var = mean, var

    @classmethod
    def fit(cls, x):
        return cls(x.mean(0), x.var(0))

    def __call__(self, x):
        return (x - self.mean) / (self.var + 1e-5).sqrt()  # RAISES: 1

    def state_dict(self):
        return {"mean": self.mean, "var": self.var}

    def to(self, device):
        return Normalizer(self.mean.to(device), self.var.to(device))


def save(path, model, opt, norm, best):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "norm": norm.state_dict(), "best": best}, path)


def load(path, device):
    ckpt = torch.load(path, map_location="cpu")  # ALSO: 1 # ALSO: 2
    model = build().to(device)
    model.load_state_dict(ckpt["model"])
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    opt.load_state_dict(ckpt["opt"])
    norm = Normalizer(**ckpt["norm"])  # BUG: any culprit=norm.mean
    # FIX: norm = Normalizer(**ckpt["norm"]).to(device)
    return model, opt, norm, ckpt["best"]  # ALSO: 2


def train(model, opt, norm, x, y, steps, best):
    for _ in range(steps):
        per_sample = (model(norm(x)).squeeze(1) - y).square()
        loss = per_sample.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        best = torch.minimum(best, per_sample.detach())  # RAISES: 2
    return loss.item(), best


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.sin(torch.arange(36.0)).view(12, 3).to(device)
    y = x.prod(1)
    model = build().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    norm = Normalizer.fit(x)
    first, best = train(model, opt, norm, x, y, 10, torch.full((12,), 9.0, device=device))
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "last.pt")
        save(path, model, opt, norm, best)
        model, opt, norm, best = load(path, device)  # BUG: any culprit=best # ALSO: 1
        # FIX: model, opt, norm, best = load(path, device)
        # FIX: best = best.to(device)
    second, best = train(model, opt, norm, x, y, 10, best)
    print(f"{first:.4f} {second:.4f} {best.mean().item():.4f}")


if __name__ == "__main__":
    main()
