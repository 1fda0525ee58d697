# compare: exact
# devices: 1
"""A custom autograd.Function, hooks on tensors and modules, gradcheck, retained gradients."""

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        ctx.mark_non_differentiable(sign := x > 0)
        return x * torch.sigmoid(beta * x), sign

    @staticmethod
    def backward(ctx, grad, _):
        (x,) = ctx.saved_tensors
        assert x.device == grad.device
        s = torch.sigmoid(ctx.beta * x)
        return grad * (s + ctx.beta * x * s * (1 - s)), None


class Clip(torch.autograd.Function):
    """Straight-through: changes the gradient only."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.05, 0.05)


torch.manual_seed(0)
log = []
model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 1)).to(device)
model[0].register_forward_pre_hook(lambda m, args: log.append(("pre", tuple(args[0].shape))))
model[0].register_forward_hook(lambda m, args, out: out * 2)
model[1].register_full_backward_hook(lambda m, gin, gout: log.append(("backward", gin[0].device.type == device.type)))
model[1].weight.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", tuple(p.grad.shape))))

x = torch.linspace(-2, 2, 24).view(4, 6).to(device).requires_grad_()
hidden, sign = Swish.apply(model[0](x), 1.5)
hidden.retain_grad()
hidden.register_hook(lambda g: g * 0.5)
out = Clip.apply(model[1](hidden)).sum()
out.backward()
print(f"out {out.item():.6f} positive {int(sign.sum())}")
print(f"x.grad {x.grad.sum().item():.6f} hidden.grad {hidden.grad.abs().sum().item():.6f}")
print("log", log)
assert x.grad.device == x.device and out.grad_fn is not None

double = torch.linspace(-1, 1, 6, dtype=torch.float64).to(device).requires_grad_()
print("gradcheck", torch.autograd.gradcheck(lambda t: Swish.apply(t, 1.0)[0], (double,)))
print("gradgradcheck", torch.autograd.gradgradcheck(lambda t: (t.sin() * t.exp()).sum(), (double,)))

with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.to(device)):
    y = (double.exp() * double).sum()
y.backward()
print(f"packed on the host {double.grad.sum().item():.6f}")
double.grad = None
with torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda"):
    y = (double.exp() * double).sum()
y.backward()
print(f"save_on_cpu {double.grad.sum().item():.6f}")

with torch.autograd.set_detect_anomaly(True):
    try:
        torch.sqrt(torch.zeros(1, device=device, requires_grad=True) - 1).backward()
    except RuntimeError as error:
        print("anomaly", "returned nan values" in str(error))
