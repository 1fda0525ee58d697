# First-order-free MAML on sine tasks with explicit parameter dictionaries
import math
import torch
import torch.nn.functional as F


def init_params(sizes, device):
    params = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        params[f"w{i}"] = (torch.randn(b, a) / math.sqrt(a)).to(device).requires_grad_()
        params[f"b{i}"] = torch.zeros(b, requires_grad=True)  # BUG: any culprit=params["b0"]
        # FIX: params[f"b{i}"] = torch.zeros(b, device=device, requires_grad=True)
    return params


def forward(params, x):
    n = len(params) // 2
    for i in range(n):
        x = F.linear(x, params[f"w{i}"], params[f"b{i}"])  # RAISES: 1
        if i < n - 1:
            x = torch.tanh(x)
    return x


def adapt(params, x, y, lr=0.05, steps=2):
    fast = dict(params)
    for _ in range(steps):
        loss = F.mse_loss(forward(fast, x), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {k: p - lr * g for (k, p), g in zip(fast.items(), grads)}
    return fast


def sine_task(i, device, shots=8):
    amp, phase = 1.0 + 0.3 * i, 0.5 * i
    xs = torch.linspace(-3, 3, 2 * shots, device=device).unsqueeze(1)
    ys = amp * torch.sin(xs + phase)
    return (xs[::2], ys[::2]), (xs[1::2], ys[1::2])


def meta_train(device, iterations=10, tasks=3):
    params = init_params([1, 12, 1], device)
    opt = torch.optim.Adam(params.values(), lr=0.01)
    task_weight = torch.tensor([0.5, 0.3, 0.2])  # BUG: any culprit=task_weight
    # FIX: task_weight = torch.tensor([0.5, 0.3, 0.2], device=device)
    for _ in range(iterations):
        outer = []
        for i in range(tasks):
            (sx, sy), (qx, qy) = sine_task(i, device)
            fast = adapt(params, sx, sy)
            outer.append(F.mse_loss(forward(fast, qx), qy))
        meta = torch.stack(outer) @ task_weight  # RAISES: 2
        opt.zero_grad()
        meta.backward()
        opt.step()
    return params, meta


if __name__ == "__main__":
    torch.manual_seed(1234)
    where = "cuda" if torch.cuda.is_available() else "cpu"
    learned, final = meta_train(where)
    print(round(final.item(), 4), round(learned["w0"].norm().item(), 3))
