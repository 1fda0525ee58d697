"""Quantisation-aware training with a hand-written straight-through function."""
import torch
from torch import nn
from torch.autograd import Function

DEVICE = torch.device("cuda")
LEVELS = torch.tensor([-1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0])  # BUG: any culprit=LEVELS
# FIX: LEVELS = torch.tensor([-1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0], device=DEVICE)


class SnapToLevels(Function):
    @staticmethod
    def forward(ctx, w, scale):
        unit = w / scale
        mids = (LEVELS[1:] + LEVELS[:-1]) / 2  # ALSO: 1
        codes = torch.bucketize(unit, mids)  # RAISES: 1
        ctx.save_for_backward(unit, codes)
        return LEVELS[codes] * scale  # ALSO: 1

    @staticmethod
    def backward(ctx, grad):
        unit, codes = ctx.saved_tensors
        inside = unit.abs() <= 1.0
        limit = torch.zeros(grad.shape)  # BUG: any culprit=limit
        # FIX: limit = torch.zeros(grad.shape, device=grad.device)
        grad_w = torch.where(inside, grad, limit)  # RAISES: 2
        outside = torch.where(inside, LEVELS[codes] - unit, unit.sign())  # ALSO: 1
        grad_scale = (grad * outside).sum(dim=1, keepdim=True)
        return grad_w, grad_scale


class QuantLinear(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_out, fan_in) / fan_in ** 0.5)
        self.scale = nn.Parameter(self.weight.detach().abs().amax(1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x):
        return nn.functional.linear(x, SnapToLevels.apply(self.weight, self.scale), self.bias)

    def histogram(self):
        mids = (LEVELS[1:] + LEVELS[:-1]) / 2  # ALSO: 1
        return torch.bincount(torch.bucketize(self.weight.detach() / self.scale, mids).flatten(), minlength=len(LEVELS))


def xor_clouds(n):
    sign = torch.randint(0, 2, (n, 2), device=DEVICE) * 2 - 1
    x = sign + 0.35 * torch.randn(n, 2, device=DEVICE)
    return x, (sign.prod(1) > 0).long()


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(33)
    net = nn.Sequential(QuantLinear(2, 24), nn.ReLU(), QuantLinear(24, 24), nn.ReLU(), QuantLinear(24, 2)).to(DEVICE)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    cost = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.2]))  # BUG: any culprit=cost
    # FIX: cost = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.2], device=DEVICE))
    held_x, held_y = xor_clouds(200)
    for it in range(40):
        x, y = xor_clouds(64)
        loss = cost(net(x), y)  # RAISES: 3
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 9:
            print(it + 1, f"{loss.item():.4f} {accuracy(net, held_x, held_y):.3f}")
    print(net[2].histogram().tolist())


main()
