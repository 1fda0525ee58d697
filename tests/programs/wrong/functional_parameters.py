"""No modules: parameters are a dictionary, the network is a function."""

import torch
import torch.nn.functional as F


def init(sizes, scale=0.3):
    params = {}
    for n, (i, o) in enumerate(zip(sizes, sizes[1:])):
        params[f"w{n}"] = torch.randn(o, i, device="cuda") * scale
        params[f"b{n}"] = torch.zeros(o)  # BUG: default-device culprit=params["b0"]
        # FIX: params[f"b{n}"] = torch.zeros(o, device="cuda")
    return {k: v.requires_grad_() for k, v in params.items()}


def predict(params, x):
    depth = len(params) // 2
    for n in range(depth):
        x = F.linear(x, params[f"w{n}"], params[f"b{n}"])  # RAISES: 1
        if n < depth - 1:
            x = torch.tanh(x)
    return x


def update(params, x, y, lr):
    loss = F.mse_loss(predict(params, x), y)
    grads = torch.autograd.grad(loss, list(params.values()))
    return {k: (v - lr * g).detach().requires_grad_() for (k, v), g in zip(params.items(), grads)}, loss


torch.manual_seed(0)
x = torch.linspace(-1, 1, 20, device="cuda")[:, None]
y = x**2
params = init([1, 8, 1])
for _ in range(4):
    params, loss = update(params, x, y, 0.1)
print("loss is finite", bool(loss.isfinite()))
