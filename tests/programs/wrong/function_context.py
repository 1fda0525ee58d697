"""A quantiser with a straight-through gradient; what backward needs is kept on the context."""

import torch
from torch import nn


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        scale = x.detach().abs().max() / levels
        ctx.damping = torch.linspace(1.0, 0.5, x.shape[-1])  # BUG: default-device culprit=ctx.damping
        # FIX: ctx.damping = torch.linspace(1.0, 0.5, x.shape[-1], device=x.device)
        ctx.save_for_backward(x, scale)
        return torch.round(x / scale) * scale

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        inside = (x.abs() <= scale * 8).to(grad_output.dtype)
        return grad_output * inside * ctx.damping, None  # RAISES: 1


class QuantizedLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, Quantize.apply(self.weight, 8), self.bias)


torch.manual_seed(0)
net = nn.Sequential(QuantizedLinear(6, 10), nn.ReLU(), QuantizedLinear(10, 1)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(20, 6).cuda()
for step in range(3):
    loss = (net(x)[:, 0] - x.mean(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}")
