"""Per-device kernels chosen by a registry; a decorator that runs a host function on device tensors."""
import functools
import torch

KERNELS = {}


def kernel(kind):
    def wrap(fn):
        KERNELS.setdefault(fn.__name__, {})[kind] = fn
        @functools.wraps(fn)
        def call(x, *args):
            return KERNELS[fn.__name__][x.device.type](x, *args)
        return call
    return wrap


@kernel("cpu")
def median_filter(x, k):
    return x.unfold(0, k, 1).median(-1).values


@kernel("cuda")
def median_filter(x, k):
    return x.unfold(0, k, 1).sort(-1).values[:, k // 2]


def on_host(fn):
    @functools.wraps(fn)
    def call(x, *args, **kw):
        return fn(x.cpu(), *args, **kw).to(x.device)
    return call


@on_host
def levels(x, n):
    edges = torch.linspace(-1, 1, n)
    return torch.bucketize(x, edges)


x = torch.sin(torch.arange(15.0))
outs = {}
for dev in ("cpu", "cuda:0", "cuda:1"):
    y = median_filter(x.to(dev), 3)
    lv = levels(y, 5)
    assert lv.device == y.device
    outs[dev] = (round(y.sum().item(), 4), lv.sum().item())
print(outs, len(set(outs.values())))
