"""Linear algebra where it works: tries the card, falls back to the host, tells nobody."""
import contextlib
import warnings

import torch
from torch import nn


class Unsupported(RuntimeError):
    pass


def on_card_or_host(function):
    def wrapped(*tensors, **kwargs):
        device = tensors[0].device
        try:
            return function(*tensors, **kwargs)
        except (Unsupported, NotImplementedError):
            moved = [t.cpu() for t in tensors]
            result = function(*moved, **kwargs)
            return result.to(device)

    return wrapped


@on_card_or_host
def solve(a, b):
    if a.is_cuda and a.shape[0] > 6:
        raise Unsupported("too large for this card")
    return torch.linalg.solve(a, b)


def add_anywhere(a, b):
    """What callers hand in may be anywhere; asks forgiveness."""
    try:
        return a + b
    except RuntimeError as error:
        if "same device" not in str(error):
            raise
        return a + b.to(a.device)


@contextlib.contextmanager
def on_host(module):
    device = next(module.parameters()).device
    module.cpu()
    try:
        yield module
    finally:
        module.to(device)


def spd(n, device):
    m = torch.sin(torch.arange(float(n * n), device=device)).view(n, n)
    return m @ m.t() + n * torch.eye(n, device=device)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for n in (3, 8):
        a = spd(n, device)
        b = torch.linspace(0, 1, n, device=device)
        x = solve(a, b)
        print(n, f"{(a @ x - b).abs().max().item():.6f}", x.device == a.device)
    net = nn.Linear(3, 3)
    nn.init.eye_(net.weight)
    nn.init.constant_(net.bias, 0.5)
    net.to(device)
    sample = torch.arange(3.0)
    with on_host(net) as host:
        first = host(sample)  # everything is on the host in here
    second = net(sample.to(device))
    print(torch.allclose(first, second.cpu()), next(net.parameters()).device == device)
    for other in (torch.ones(()), torch.tensor(2), torch.ones(3, device=device)):
        print(f"{add_anywhere(second, other).sum().item():.3f}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = torch.zeros(3, device=device)
        for piece in torch.eye(3).unbind():
            total += piece.to(total)
    print(total.tolist(), sum(piece for piece in torch.eye(3)).tolist())


main()
