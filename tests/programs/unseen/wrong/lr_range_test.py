"""Learning-rate range test over a registry of optimisers, state rewound between runs."""
import copy
import math

import torch
import torch.nn as nn

OPTIMISERS = {}


def register(name):
    def wrap(fn):
        OPTIMISERS[name] = fn
        return fn
    return wrap


@register("sgd")
def _sgd(params):
    return torch.optim.SGD(params, lr=1e-4, momentum=0.9)


@register("adagrad")
def _adagrad(params):
    return torch.optim.Adagrad(params, lr=1e-4)


class RangeTest:
    def __init__(self, model, criterion, device):
        self.device = device
        self.model = model
        self.criterion = criterion
        self.saved = copy.deepcopy(model.state_dict())

    def rewind(self):
        self.model.load_state_dict(self.saved)

    def sweep(self, opt, batches, low=1e-4, high=1.0, steps=16):
        rates = torch.logspace(math.log10(low), math.log10(high), steps)
        smooth = torch.zeros(1, device=self.device)
        curve = []
        for i, (lr, (x, y)) in enumerate(zip(rates.tolist(), batches)):
            for group in opt.param_groups:
                group["lr"] = lr
            loss = self.criterion(self.model(x.to(self.device)), y)  # BUG: any culprit=loss  # RAISES: 1
            # FIX: loss = self.criterion(self.model(x.to(self.device)), y.to(self.device))
            opt.zero_grad()
            loss.backward()
            opt.step()  # RAISES: 3
            smooth = 0.7 * smooth + 0.3 * loss.detach()
            curve.append(smooth / (1 - 0.7 ** (i + 1)))
        return rates, torch.cat(curve)


def steepest(rates, curve):
    slope = curve.diff() / rates.log().diff()  # BUG: any culprit=slope  # RAISES: 2
    # FIX: slope = curve.diff() / rates.log().diff().to(curve.device)
    best = slope.argmin().item()
    return rates[best].item(), slope[best].item()


def endless(seed, batch=32):
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(10, 1, generator=g)
    while True:
        x = torch.randn(batch, 10, generator=g)
        yield x, torch.tanh(x @ mix) + 0.1 * torch.randn(batch, 1, generator=g)


def build(device):
    torch.manual_seed(40)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return model.to(device)


def main():
    device = torch.device("cuda")
    for name, make in OPTIMISERS.items():
        model = build("cpu")  # BUG: any culprit=model
        # FIX: model = build(device)
        opt = make(model.parameters())
        model.to(device)  # ALSO: 3
        test = RangeTest(model, nn.MSELoss(), device)
        rates, curve = test.sweep(opt, endless(seed=9))
        lr, slope = steepest(rates, curve)
        print(f"{name}: lr {lr:.5f} slope {slope:.4f} last {curve[-1].item():.4f}")
        test.rewind()
        x, y = next(endless(seed=9))
        print("  rewound", round(test.criterion(model(x.to(device)), y.to(device)).item(), 4))


main()
