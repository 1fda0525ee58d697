"""Gradients that are set to zero instead of being let go: they are held beside the activations of the next step."""

import torch
from torch import nn

torch.manual_seed(0)
layers = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()
sgd = torch.optim.SGD(layers.parameters(), lr=1e-3)
for step in range(3):
    batch = torch.full((1280, 1024), 0.1 * step, device="cuda")
    sgd.zero_grad(set_to_none=False)  # BUG: out-of-memory
    # FIX: sgd.zero_grad(set_to_none=True)
    loss = layers(batch).square().mean()  # RAISES: 1
    loss.backward()
    sgd.step()
print(loss.isfinite().item())
