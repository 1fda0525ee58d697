"""Ensemble of regressors evaluated in one go with torch.func."""
import copy

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap


class Reg(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.l1 = nn.Linear(2, 8)
        self.l2 = nn.Linear(8, 1)
        self.register_buffer("gain", torch.tensor(1.0 + k / 10))

    def forward(self, x):
        return self.l2(torch.tanh(self.gain * self.l1(x))).squeeze(-1)  # RAISES: 1


def main():
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    members = [Reg(k) for k in range(4)]  # ALSO: 1
    params, buffers = stack_module_state(members)  # BUG: any culprit=params
    # FIX: params, buffers = stack_module_state([m.to(device) for m in members])
    base = copy.deepcopy(members[0]).to("meta")

    def predict(p, b, x):
        return functional_call(base, (p, b), (x,))

    x = torch.sin(torch.arange(24.0)).view(12, 2).to(device)
    y = x[:, 0] * x[:, 1]

    def loss_fn(p, b, x, y):
        return (predict(p, b, x) - y).pow(2).mean()

    step = vmap(grad(loss_fn), in_dims=(0, 0, None, None))
    lrs = torch.tensor([0.05, 0.1, 0.2, 0.3])  # BUG: any culprit=lrs
    # FIX: lrs = torch.tensor([0.05, 0.1, 0.2, 0.3], device=device)
    for _ in range(15):
        g = step(params, buffers, x, y)
        params = {k: p.detach() - lrs.view(-1, *[1] * (p.dim() - 1)) * g[k] for k, p in params.items()}  # RAISES: 2
    out = vmap(predict, in_dims=(0, 0, None))(params, buffers, x)
    errors = (out - y).pow(2).mean(1)
    best = int(errors.argmin())
    print("best", best, "%.4f" % errors[best].item(), "spread %.4f" % out.std(0).mean().item())


if __name__ == "__main__":
    main()
