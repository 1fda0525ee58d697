"""Stages placed with the torch.cuda.device context manager."""
import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, index, width):
        super().__init__()
        self.index = index
        with torch.cuda.device(index):
            self.lin = nn.Linear(width, width).cuda()
            self.shift = torch.linspace(-0.1, 0.1, width, device="cuda")
        self.residual_scale = torch.full((width,), 0.5, device="cuda")  # BUG: any culprit=self.residual_scale
        # FIX: self.residual_scale = torch.full((width,), 0.5, device=f"cuda:{index}")

    def forward(self, x):
        return self.residual_scale * x + torch.relu(self.lin(x) + self.shift)  # RAISES: 1 # RAISES: 2


class Pipe(nn.Module):
    def __init__(self, width, stages):
        super().__init__()
        self.stages = nn.ModuleList(Stage(i % torch.cuda.device_count(), width) for i in range(stages))
        with torch.cuda.device(self.stages[-1].index):
            self.head = nn.Linear(width, 2).cuda()

    def forward(self, x):
        for stage in self.stages:
            x = stage(x.cuda())  # BUG: any culprit=x
            # FIX: x = stage(x.cuda(stage.index))
        return self.head(x)


def microbatches(x, y, n):
    yield from zip(x.chunk(n), y.chunk(n))


def main():
    torch.manual_seed(37)
    pipe = Pipe(6, 4)
    opt = torch.optim.SGD(pipe.parameters(), lr=0.05)
    x = torch.cos(torch.arange(72.0)).view(12, 6)
    y = (x.sum(1) > 0).long()
    for _ in range(4):
        opt.zero_grad()
        total = 0.0
        for bx, by in microbatches(x, y, 3):
            out = pipe(bx)
            loss = nn.functional.cross_entropy(out, by.cuda()) / 3  # BUG: any culprit=by # RAISES: 3
            # FIX: loss = nn.functional.cross_entropy(out, by.to(out.device)) / 3
            loss.backward()
            total += loss.item()
        opt.step()
    print("%.4f" % total)


main()
