"""Big-model inference: layers live on the host and visit the GPU one at a time."""
import contextlib
import torch
from torch import nn


@contextlib.contextmanager
def onload(module, device):
    home = next(module.parameters()).device
    module.to(device)
    try:
        yield module
    finally:
        module.to(home)


class Offloaded(nn.Module):
    def __init__(self, layers, device):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.device = device

    @torch.no_grad()
    def forward(self, x):
        x = x.to(self.device)
        for layer in self.layers:
            with onload(layer, self.device) as l:
                x = torch.relu(l(x))
        return x.cpu()


def attach_hooks(module, device):
    def pre(mod, args):
        mod.to(device)
        return tuple(a.to(device) for a in args)

    def post(mod, args, out):
        mod.to("cpu")
        return out

    module.register_forward_pre_hook(pre)
    module.register_forward_hook(post)


torch.manual_seed(18)
layers = [nn.Linear(5, 5) for _ in range(4)]
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.arange(10.0).view(2, 5) / 10
plain = x
for l in layers:
    plain = torch.relu(l(plain))
off = Offloaded(layers, dev)(x)
for l in layers:
    attach_hooks(l, dev)
hooked = x
with torch.no_grad():
    for l in layers:
        hooked = torch.relu(l(hooked))
print(torch.allclose(plain, off, atol=1e-5), torch.allclose(plain, hooked.cpu(), atol=1e-5), {p.device.type for l in layers for p in l.parameters()})
print("%.4f" % off.sum().item())
