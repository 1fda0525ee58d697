"""Two replicas on two GPUs share a helper that remembers its masks."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn


@lru_cache(maxsize=None)
def causal_bias(length):  # BUG: cache culprit=causal_bias
# FIX: def causal_bias(length, device):
    bias = torch.full((length, length), float("-inf"), device=torch.cuda.current_device())  # ALSO: 1
    # FIX: bias = torch.full((length, length), float("-inf"), device=device)
    return bias.triu(1)  # ALSO: 1


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / q.size(-1) ** 0.5 + causal_bias(x.size(1))  # RAISES: 1  # ALSO: 1
        # FIX: scores = q @ k.transpose(1, 2) / q.size(-1) ** 0.5 + causal_bias(x.size(1), x.device)
        return F.softmax(scores, -1) @ v


torch.manual_seed(0)
replicas = [Attend(8).to(f"cuda:{i}") for i in range(2)]
replicas[1].load_state_dict(replicas[0].state_dict())
batch = torch.randn(4, 5, 8)
outputs = []
for i, part in enumerate(batch.chunk(2)):
    with torch.cuda.device(i):
        outputs.append(replicas[i](part.cuda()))
print(torch.cat([o.detach().cpu() for o in outputs]).sum().item() != 0, [str(o.device) for o in outputs])
