import torch
from torch import nn


class Capture:
    def __init__(self, model, names, device="cpu"):
        self.store, self.handles = {}, []
        for n, m in model.named_modules():
            if n in names:
                self.handles.append(m.register_forward_hook(self.make(n, device)))

    def make(self, name, device):
        def hook(module, inp, out):
            self.store.setdefault(name, []).append(out.detach().to(device))
        return hook

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for h in self.handles:
            h.remove()


def cka(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    return ((a.T @ b).norm() ** 2 / ((a.T @ a).norm() * (b.T @ b).norm())).item()


torch.manual_seed(44)
gpu = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).to(gpu)
grads = []
net[0].weight.register_hook(lambda g: grads.append(g.norm().cpu()))
with Capture(net, {"0", "2"}) as cap:
    for i in range(3):
        x = torch.sin(torch.arange(20.0) + i).view(5, 4).to(gpu)
        net(x).square().mean().backward()
a, b = (torch.cat(cap.store[k]) for k in ("0", "2"))
print(tuple(a.shape), "%.4f" % cka(a, b), "%.4f" % torch.stack(grads).sum().item())
