"""Lazy layers, meta tensors and skip-init: nothing is anywhere until it has to be."""
import torch
from torch import nn


class Placed(nn.Module):
    """Goes where its first input is."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.at = None

    def forward(self, x):
        if self.at is None:
            self.at = x.device
            self.module.to(self.at)
        return self.module(x if x.device == self.at else x.to(self.at))


def conv_net():
    return nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(3)
    )


@torch.no_grad()
def fill(module):
    for i, p in enumerate(module.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel() * 1.0) + i).view(p.shape) * 0.3)
    return module


def big_on_meta(device):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 2))
    shapes = {k: tuple(v.shape) for k, v in model.state_dict().items()}
    model.to_empty(device=device)
    fill(model)
    return model, shapes


def assigned(device):
    with torch.device("meta"):
        model = nn.Linear(4, 4)
    weights = {"weight": torch.eye(4, device=device), "bias": torch.zeros(4, device=device)}
    model.load_state_dict(weights, assign=True)
    return model


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.sin(torch.arange(3 * 2 * 36.0) * 0.2).view(3, 2, 6, 6)
    lazy = conv_net()
    lazy.to(device)
    with torch.no_grad():
        lazy(x.to(device))
    fill(lazy)
    lazy.eval()
    print([round(v, 3) for v in lazy(x.to(device))[0].tolist()])

    placed = Placed(fill(nn.Linear(6, 2)))
    first = placed(x[0, 0].to(device))
    second = placed(x[0, 0])  # from the host: it takes care
    print(torch.equal(first, second), placed.at == device)

    model, shapes = big_on_meta(device)
    skipped = nn.utils.skip_init(nn.Linear, 2, 2, device=device)
    nn.init.eye_(skipped.weight)
    nn.init.zeros_(skipped.bias)
    out = skipped(model(torch.linspace(-1, 1, 7, device=device)))
    print(shapes["0.weight"], [round(v, 3) for v in out.tolist()])
    print(assigned(device)(torch.arange(4.0, device=device)).sum().item())
    template = torch.empty(3, 3, device="meta")
    real = torch.zeros_like(template, device=device) + torch.ones(())
    print(real.sum().item(), template.is_meta)


main()
