"""Activations go to the host from a hook; the principal directions found there return as a buffer."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Collector:
    def __init__(self, layer):
        self.rows = []
        self.handle = layer.register_forward_hook(self)

    def __call__(self, module, args, out):
        self.rows.append(out.detach().to("cpu"))

    def stop(self):
        self.handle.remove()
        return torch.cat(self.rows).numpy()


class Projected(nn.Module):
    """A frozen body, a fixed projection and a new head."""

    def __init__(self, body, directions, centre, classes):
        super().__init__()
        self.body = body.requires_grad_(False)
        self.register_buffer("directions", torch.from_numpy(directions).float())
        self.register_buffer("centre", torch.from_numpy(centre).float())
        self.head = nn.Linear(len(directions), classes)

    def forward(self, x):
        return self.head((self.body(x) - self.centre) @ self.directions.t())


def rings(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    r = 1.0 + y + 0.15 * rng.normal(size=n)
    a = rng.uniform(0, 2 * np.pi, n)
    x = np.stack([r * np.cos(a), r * np.sin(a)], 1)
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def fit(model, params, x, y, steps, lr):
    opt = torch.optim.Adam(params, lr=lr)
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(28)
    x, y = (t.to(device) for t in rings(180, 3))
    body = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU())
    net = nn.Sequential(body, nn.Linear(24, 3)).to(device)
    print(f"full {fit(net, net.parameters(), x, y, 25, 1e-2):.4f}")

    collector = Collector(body)
    with torch.no_grad():
        for part in x.split(60):
            net(part)
    rows = collector.stop()
    centre = rows.mean(0)
    _, s, vt = np.linalg.svd(rows - centre, full_matrices=False)
    share = (s[:4] ** 2).sum() / (s ** 2).sum()
    print(f"kept {share:.4f}")

    small = Projected(body, vt[:4], centre, 3).to(device)
    print(f"projected {fit(small, small.head.parameters(), x, y, 25, 5e-2):.4f}")
    with torch.no_grad():
        right = (small(x).argmax(1) == y).cpu().numpy()
    print(f"accuracy {right.mean():.3f}")


main()
