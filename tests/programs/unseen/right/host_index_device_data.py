"""Everything indexed from the host: permutations, boolean masks, lists and numpy arrays."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make(n, gen):
    x = torch.randn(n, 6, generator=gen)
    y = (x[:, 0] - x[:, 1] + 0.3 * torch.randn(n, generator=gen) > 0).long()
    return x, y


def minibatches(n, size, gen):
    order = torch.randperm(n, generator=gen)
    for i in range(0, n, size):
        yield order[i:i + size]


class Easy:
    """Remembers on the host which examples are learnt, the losses live on the device."""

    def __init__(self, n):
        self.loss = torch.full((n,), 10.0, device=device)
        self.easy = torch.zeros(n, dtype=torch.bool)

    def note(self, idx, each):
        self.loss[idx] = each.detach()
        self.easy[idx] = (each.detach() < 0.1).cpu()

    def hard_share(self):
        return (~self.easy).float().mean().item()


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(1)
    x, y = make(200, gen)
    held = np.zeros(200, dtype=bool)
    held[np.random.default_rng(0).choice(200, 50, replace=False)] = True
    centre, spread = x[~held].mean(), x[~held].std()  # 0-dim, they stay on the host
    xd, yd = ((x.to(device) - centre) / spread), y.to(device)
    train_x, train_y = xd[~held], yd[torch.from_numpy(~held)]
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    track = Easy(len(train_x))
    smoothing = torch.tensor(0.05)
    for epoch in range(6):
        for idx in minibatches(len(train_x), 50, gen):
            out = net(train_x[idx])
            each = F.cross_entropy(out, train_y[idx], reduction="none")
            loss = (1 - smoothing) * each.mean() - smoothing * F.log_softmax(out, 1).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            track.note(idx, each)
        print(f"epoch {epoch} loss {loss.item():.4f} hard {track.hard_share():.3f}")
    with torch.no_grad():
        pred = net(xd)[held].argmax(1)
    hit = pred == yd[held]
    worst = track.loss.topk(3).indices.tolist()
    print(f"held out {hit.float().mean().item():.3f}", "worst", [round(v, 3) for v in track.loss[worst].tolist()])


main()
