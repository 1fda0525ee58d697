"""Momentum SGD and weight averaging by hand; snapshots go through numpy and back."""
import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cuda")


class Momentum:
    def __init__(self, model, lr, mu=0.9):
        self.params = list(model.parameters())
        self.buf = [torch.zeros_like(p) for p in self.params]
        self.lr, self.mu = lr, mu

    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.buf):
            b.mul_(self.mu).add_(p.grad)  # RAISES: 2
            p.sub_(b, alpha=self.lr)
            p.grad = None

    def export(self):
        return [b.cpu().numpy() for b in self.buf]

    def restore(self, arrays):
        self.buf = [torch.from_numpy(a.copy()) for a in arrays]  # BUG 2: any culprit=self.buf
        # FIX: self.buf = [torch.from_numpy(a.copy()).to(p.device) for a, p in zip(arrays, self.params)]


class Average:
    def __init__(self):
        self.sums, self.n = None, 0

    def add(self, model):
        now = [p.detach().double().cpu() for p in model.parameters()]
        self.sums = now if self.sums is None else [a + b for a, b in zip(self.sums, now)]
        self.n += 1

    def write_to(self, model):
        for p, s in zip(model.parameters(), self.sums):
            p.data = (s / self.n).float()  # BUG 3: any culprit=p.data
            # FIX: p.data.copy_((s / self.n).float())


class Net(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(5, width), nn.Linear(width, 2)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return self.fc2(F.relu(self.norm(self.fc1(x))))  # RAISES: 3


def snapshot(model, opt):
    f = io.BytesIO()
    weights = {f"w/{k}": v.detach().numpy() for k, v in model.state_dict().items()}  # BUG 1: any  # RAISES: 1
    # FIX: weights = {f"w/{k}": v.detach().cpu().numpy() for k, v in model.state_dict().items()}
    np.savez(f, **weights, **{f"m/{i}": b for i, b in enumerate(opt.export())})
    f.seek(0)
    return f


def resume(f, lr):
    z = np.load(f)
    model = Net()
    model.load_state_dict({k[2:]: torch.from_numpy(z[k]) for k in z.files if k.startswith("w/")})
    model.to(DEVICE)
    opt = Momentum(model, lr)
    opt.restore([z[f"m/{i}"] for i in range(len(opt.params))])
    return model, opt


def stream(n, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.normal(size=(32, 5)).astype(np.float32)
        y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(np.int64)
        yield torch.as_tensor(x, device=DEVICE), torch.as_tensor(y, device=DEVICE)


def train(model, opt, n, seed, average=None):
    model.train()
    for x, y in stream(n, seed):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        if average is not None:
            average.add(model)
    return loss.item()


@torch.no_grad()
def accuracy(model):
    model.eval()
    hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in stream(6, 999)]
    return float(np.mean(hits))


def main():
    torch.manual_seed(70)
    model = Net().to(DEVICE)
    opt = Momentum(model, lr=0.05)
    print(f"phase 1 loss {train(model, opt, 12, 1):.4f} acc {accuracy(model):.3f}")
    saved = snapshot(model, opt)
    model, opt = resume(saved, lr=0.02)
    average = Average()
    print(f"phase 2 loss {train(model, opt, 12, 2, average):.4f} acc {accuracy(model):.3f}")
    average.write_to(model)
    print(f"averaged acc {accuracy(model):.3f}")


if __name__ == "__main__":
    main()
