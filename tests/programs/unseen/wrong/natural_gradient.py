"""Natural gradient with a diagonal Fisher, kept in plain lists beside the parameters."""
import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(21)


def device_of(module):
    return next(module.parameters()).device


class DiagonalFisher:
    def __init__(self, module, decay=0.9, damping=1e-2):
        self.module, self.decay, self.damping = module, decay, damping
        self.diag = [torch.ones(p.shape) for p in module.parameters()]  # BUG: any culprit=self.diag
        # FIX: self.diag = [torch.ones_like(p) for p in module.parameters()]

    def update(self, per_sample):
        for d, g in zip(self.diag, per_sample):
            d.mul_(self.decay).add_(g.square().mean(0), alpha=1 - self.decay)  # RAISES: 1

    def precondition(self, grads):
        return [g / (d + self.damping) for g, d in zip(grads, self.diag)]


def make_loss(module):
    def loss(params, x, y, weight):
        out = functional_call(module, params, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(out, y.unsqueeze(0)) * weight  # RAISES: 3

    return loss


def line_search(module, direction, closure, sizes):
    """The best of several step sizes; the module gets it."""
    params = list(module.parameters())
    old = [p.detach().clone() for p in params]
    losses = []
    for size in sizes:
        for p, o, d in zip(params, old, direction):
            p.data = o - size * d
        losses.append(closure())
    best = int(torch.stack(losses).argmin())
    for p, o, d in zip(params, old, direction):
        p.data = o - sizes[best] * d
    return sizes[best].item(), losses[best].item()


def main():
    use_cuda = torch.cuda.is_available()
    module = torch.nn.Sequential(torch.nn.Linear(4, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3))
    if use_cuda:
        module = module.cuda()
    device = device_of(module)
    x = torch.sin(torch.arange(96.0) * 1.3).view(24, 4)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long()
    importance = torch.linspace(0.5, 1.5, len(y))  # ALSO: 3
    if use_cuda:
        x, y = x.cuda(), y.cuda()  # ALSO: 3

    fisher = DiagonalFisher(module)
    per_sample = vmap(grad(make_loss(module)), in_dims=(None, 0, 0, 0))
    sizes = torch.tensor([0.01, 0.03, 0.1, 0.3], device=device)
    center = [torch.zeros_like(p, device="cpu") for p in module.parameters()]  # ALSO: 2

    for step in range(5):
        params = dict(module.named_parameters())
        grads = list(per_sample(params, x, y, importance).values())  # BUG 3: any culprit=importance
        # FIX: grads = list(per_sample(params, x, y, importance.to(device)).values())
        fisher.update([g.detach() for g in grads])
        direction = fisher.precondition([g.detach().mean(0) for g in grads])
        with torch.no_grad():
            size, loss = line_search(module, direction, lambda: torch.nn.functional.cross_entropy(module(x), y), sizes)
            for c, p in zip(center, module.parameters()):
                c += (p - c) / (step + 1)  # BUG 2: any culprit=c # RAISES: 2
                # FIX: c += (p.cpu() - c) / (step + 1)
        print(f"step {step} size {size:.2f} loss {loss:.4f}")
    print("center %.4f" % sum(c.norm().item() for c in center))


main()
