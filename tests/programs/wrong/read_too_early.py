"""Statistics go to pinned host memory while the GPU is still busy with the next batch."""

import torch
from torch import nn

device = torch.device("cuda")
torch.manual_seed(0)
model = nn.Linear(16, 16).to(device)
batches = [torch.randn(32, 16, device=device) for _ in range(4)]

host = torch.empty(4, 16, pin_memory=True)
with torch.no_grad():
    for i, batch in enumerate(batches):
        host[i].copy_(model(batch).mean(0), non_blocking=True)  # BUG: read-too-early culprit=host
# ADD: torch.cuda.synchronize()
print("mean over batches", [round(v, 4) for v in host.mean(0)[:3].tolist()])  # RAISES: none  # ALSO: 1
