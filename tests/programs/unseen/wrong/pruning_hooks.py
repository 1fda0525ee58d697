"""Magnitude pruning with gradient hooks, and activation statistics by forward hooks."""
import contextlib

import torch
import torch.nn as nn


class Pruner:
    def __init__(self, model, sparsity):
        self.masks = {}
        self.handles = []
        for name, p in model.named_parameters():
            if p.dim() < 2:
                continue
            flat = p.detach().abs().flatten()
            cut = flat.kthvalue(int(sparsity * flat.numel())).values
            mask = (p.detach().abs() > cut).float()
            self.masks[name] = mask.cpu()  # BUG: any culprit=self.masks
            # FIX: self.masks[name] = mask
            self.handles.append(p.register_hook(lambda g, n=name: g * self.masks[n]))

    @torch.no_grad()
    def apply(self, model):
        for name, p in model.named_parameters():
            if name in self.masks:
                p.mul_(self.masks[name])  # RAISES: 1

    def density(self):
        kept = sum(m.sum().item() for m in self.masks.values())
        return kept / sum(m.numel() for m in self.masks.values())


class ActivationStats:
    def __init__(self):
        self.mean = {}

    def hook(self, name):
        def fn(module, args, output):
            batch_mean = output.detach().mean(0)
            if name not in self.mean:
                self.mean[name] = torch.zeros(output.shape[1])  # BUG: any culprit=self.mean
                # FIX: self.mean[name] = torch.zeros(output.shape[1], device=output.device)
            self.mean[name].lerp_(batch_mean, 0.1)  # RAISES: 2

        return fn


@contextlib.contextmanager
def recording(model, stats):
    handles = [m.register_forward_hook(stats.hook(n)) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    try:
        yield stats
    finally:
        for h in handles:
            h.remove()


def main():
    torch.manual_seed(23)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 2)).to(device)
    pruner = Pruner(model, 0.5)
    pruner.apply(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.sin(torch.arange(50.0, device=device)).view(10, 5)
    y = (x.sum(1) > 0).long()
    with recording(model, ActivationStats()) as stats:
        for _ in range(10):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    total = sum(v.abs().sum().item() for v in stats.mean.values())
    print(f"{loss.item():.4f} {pruner.density():.3f} {total:.4f}")


main()
