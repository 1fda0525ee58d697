"""The host as an argument that a function makes its tensors on, a cached property, and a method behind a decorator."""

import functools

import torch

device = torch.device("cuda")


def logged(method):
    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        return method(*args, **kwargs)

    return wrapper


def ramp(size, where):
    return torch.arange(size, device=where).float()


class Window:
    def __init__(self, size, device):
        self.size, self.device = size, device
        self.floor = torch.full((size,), 0.25)  # BUG 3: default-device culprit=self.floor
        # FIX: self.floor = torch.full((size,), 0.25, device=device)

    @functools.cached_property
    def shape(self):
        return torch.hann_window(self.size)  # BUG 2: cache culprit=window.shape|self.shape
        # FIX: return torch.hann_window(self.size, device=self.device)

    @logged
    def clip(self, signal, size):
        return torch.maximum(signal, self.floor[:size])  # RAISES: 3


torch.manual_seed(0)
signal = torch.rand(8, device=device)
slope = ramp(8, "cpu")  # BUG 1: handoff-missing culprit=slope
# FIX: slope = ramp(8, device)
print((signal + slope).sum().item())  # RAISES: 1
window = Window(8, device)
print((signal * window.shape).sum().item())  # RAISES: 2
print(window.clip(signal, 8).sum().item())
