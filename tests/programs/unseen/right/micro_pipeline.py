"""Micro-batches through a two card pipeline; targets wait on the card where they are needed."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage(nn.Module):
    def __init__(self, device, *layers):
        super().__init__()
        self.device = torch.device(device)
        self.body = nn.Sequential(*layers).to(self.device)

    def forward(self, x):
        return self.body(x.to(self.device))


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Stage("cuda:0", nn.Linear(8, 24), nn.GELU(), nn.LayerNorm(24))
        self.b = Stage("cuda:1", nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 5))
        self.skip = nn.Linear(8, 5).to(self.b.device)

    def forward(self, x):
        return self.b(self.a(x)) + self.skip(x.to(self.b.device))


def clip_over_cards(params, limit):
    """The norm is put together on the host."""
    squares = [p.grad.square().sum().cpu() for p in params]
    norm = torch.stack(squares).sum().sqrt()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(factor)  # 0-dim, from the host
    return norm.item()


def data(n, seed):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=gen)
    return x, x[:, :5].argmax(1)


def main():
    torch.manual_seed(8)
    model = Pipeline()
    params = list(model.parameters())
    opt = torch.optim.SGD(params, lr=0.3, momentum=0.9)
    x, y = data(128, 2)
    y = y.to(model.b.device)
    counts = torch.zeros(5, device=model.b.device)
    for step in range(10):
        opt.zero_grad()
        total = 0.0
        for xm, ym in zip(x.chunk(4), y.chunk(4)):
            out = model(xm)
            loss = F.cross_entropy(out, ym) / 4
            loss.backward()
            total += loss.item()
            counts.index_add_(0, ym, torch.ones(len(ym), device=ym.device))
        norm = clip_over_cards(params, 1.0)
        opt.step()
        if step % 3 == 0:
            print(f"step {step} loss {total:.4f} norm {norm:.4f}")
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean()
    snapshot = {k: v.cpu() for k, v in model.state_dict().items()}
    size = sum(v.numel() for v in snapshot.values())
    print(f"acc {acc.item():.3f} size {size} seen {counts.cpu().sum().item():.1f}")


main()
