"""Helpers and classes that take the device, and calls that leave it out: a window, a meter, a layer's own parameter."""

import torch
from torch import nn


def window(size, device=None):
    ramp = torch.linspace(0, 1, size, device=device)
    return ramp * (1 - ramp)


class Meter:
    def __init__(self, classes, device="cpu"):
        self.device = device
        self.hits = torch.zeros(classes, device=self.device)
        self.seen = torch.zeros(classes, device=self.device)

    def update(self, predicted, labels):
        self.seen += torch.bincount(labels, minlength=len(self.seen))  # RAISES: 2
        self.hits += torch.bincount(labels[predicted == labels], minlength=len(self.hits))


class Gain(nn.Module):
    def __init__(self, width, device=None, dtype=None):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.gain = nn.Parameter(torch.ones(width, **options))

    def forward(self, x):
        return x * self.gain  # RAISES: 3


class Net(nn.Module):
    def __init__(self, width, classes, device=None):
        super().__init__()
        self.gain = Gain(width)  # BUG 3: device-not-passed|model-not-moved culprit=net.gain.gain
        # FIX: self.gain = Gain(width, device=device)
        self.head = nn.Linear(width, classes, device=device)

    def forward(self, x):
        return self.head(self.gain(x * window(x.shape[1])))  # BUG 1: device-not-passed culprit=window(x.shape[1]) # RAISES: 1
        # FIX: return self.head(self.gain(x * window(x.shape[1], x.device)))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    net = Net(4, 3, device)
    meter = Meter(3)  # BUG 2: device-not-passed culprit=meter.seen|meter.hits
    # FIX: meter = Meter(3, device)
    x = torch.sin(torch.arange(24.0, device=device)).view(6, 4)
    meter.update(net(x).argmax(1), torch.arange(6, device=device) % 3)
    print(int(meter.seen.sum()), bool(meter.hits.sum() >= 0))


main()
