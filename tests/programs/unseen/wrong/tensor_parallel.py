"""Column- and row-parallel linear layers over a list of GPUs (Megatron style, one process)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ColumnParallel(nn.Module):
    def __init__(self, full: nn.Linear, devices):
        super().__init__()
        self.devices = devices
        ws, bs = full.weight.data.chunk(len(devices)), full.bias.data.chunk(len(devices))
        self.w = nn.ParameterList(nn.Parameter(w.to(d)) for w, d in zip(ws, devices))
        self.b = nn.ParameterList(nn.Parameter(b.clone()) for b, d in zip(bs, devices))  # BUG: any culprit=self.b
        # FIX: self.b = nn.ParameterList(nn.Parameter(b.to(d)) for b, d in zip(bs, devices))

    def forward(self, x):
        return [F.linear(x.to(d), w, b) for d, w, b in zip(self.devices, self.w, self.b)]  # RAISES: 1


class RowParallel(nn.Module):
    def __init__(self, full: nn.Linear, devices):
        super().__init__()
        self.devices = devices
        ws = full.weight.data.chunk(len(devices), dim=1)
        self.w = nn.ParameterList(nn.Parameter(w.to(d)) for w, d in zip(ws, devices))
        self.bias = nn.Parameter(full.bias.data.to(devices[0]))

    def forward(self, parts):
        partial = [F.linear(p, w) for p, w in zip(parts, self.w)]
        total = partial[0]
        for p in partial[1:]:
            total = total + p  # BUG: any culprit=p # RAISES: 2
            # FIX: total = total + p.to(self.devices[0])
        return total + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, dim, hidden, devices):
        super().__init__()
        up, down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.reference = nn.Sequential(up, nn.GELU(), down)
        self.col = ColumnParallel(up, devices)
        self.row = RowParallel(down, devices)

    def forward(self, x):
        return self.row([F.gelu(h) for h in self.col(x)])


def main(world=2):
    torch.manual_seed(19)
    devices = [f"cuda:{i}" for i in range(world)]
    mlp = ParallelMLP(6, 8, devices)
    x = torch.cos(torch.arange(30.0)).view(5, 6)
    with torch.no_grad():
        want = mlp.reference(x)  # ALSO: 3
    got = mlp(x.to(devices[0]))
    gap = (got - want).abs().max()  # BUG: any culprit=want # RAISES: 3
    # FIX: gap = (got.cpu() - want).abs().max()
    loss = got.pow(2).mean()
    loss.backward()
    norms = [w.grad.norm().item() for w in mlp.col.w]
    print("same" if gap < 1e-5 else "differs", "%.4f" % loss.item(), ["%.4f" % n for n in norms])


if __name__ == "__main__":
    main()
