"""new_* and *_like follow the device of what they are made from."""
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, slots, width):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, width))

    def forward(self, x):
        state = x.new_zeros(x.size(0), self.keys.size(1))
        noise = torch.randn_like(state) * 0.0
        gate = torch.ones_like(state, dtype=torch.bool)
        weights = torch.softmax((state + noise + x) @ self.keys.t(), -1)
        steps = torch.arange(weights.size(1)).to(weights)
        bias = torch.empty_like(weights).copy_(steps.expand_as(weights))
        eye = torch.eye(weights.size(1)).type_as(weights)
        return torch.where(gate, (weights + 0 * bias) @ eye @ self.keys, 0.0)


torch.manual_seed(0)
for device in ("cpu", "cuda:0", "cuda:1"):
    memory = Memory(4, 6).to(device)
    out = memory(torch.ones(2, 6, device=device))
    out.sum().backward()
    print(out.device, memory.keys.grad.device, out.new_tensor([1, 2]).device, out.new_full((1,), 3.0).device)
