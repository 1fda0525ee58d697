"""Results of the round before that are read in the next one, and one that is read after the loop: memory runs out, which
the program expects, and nothing is said that would break it."""

import torch
from torch import nn

layer = nn.Linear(64, 16384, bias=False).cuda().requires_grad_(False)
before, changes = None, []
try:
    for number in range(3):
        now = layer(torch.full((1024, 64), float(number), device="cuda"))
        if before is not None:
            changes.append((now[0] - before[0]).abs().sum().item() > 0)
        before = now
except torch.cuda.OutOfMemoryError:
    changes.append("full")
print(changes)
