"""Makes a program of any length with one mistake in each of its functions, of all the usual kinds in turn.

For the cost of explaining, which must not grow with the file. `python long_file.py COUNT` prints such a program.
"""

from __future__ import annotations

import sys

_HEAD = '''\
"""Mistakes, one after the other."""
import torch
from torch import nn

device = torch.device("cuda")
x = torch.ones(4, 4, device=device)
'''

KINDS = (  # one mistake each; @ is its number
    # a factory without a device
    """
def plain_@():
    y = torch.zeros(4)
    return x + y

plain_@()
""",
    # a layer that was not moved
    """
class Left_@(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, given):
        return self.inner(given)

def left_@():
    model = Left_@()
    return model(x)

left_@()
""",
    # a tensor in a plain attribute of a module that was moved
    """
class Kept_@(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.scale = torch.ones(4)

    def forward(self, given):
        return self.inner(given) * self.scale

Kept_@().to(device)(x)
""",
    # a buffer that came after the move
    """
def late_@():
    model = nn.Linear(4, 4).to(device)
    model.register_buffer("late", torch.ones(4))
    return model(x) + model.late

late_@()
""",
    # a list
    """
def listed_@():
    parts = []
    for number in range(2):
        parts.append(torch.full((4,), float(number)))
    return x * parts[1]

listed_@()
""",
    # a dict
    """
def looked_up_@():
    table = {"low": torch.zeros(4), "high": torch.ones(4)}
    return x - table["high"]

looked_up_@()
""",
    # an object of the program's own
    """
class Config_@:
    def __init__(self, size):
        self.offset = torch.arange(size)

def configured_@(config):
    return x + config.offset

configured_@(Config_@(4))
""",
    # a closure
    """
def around_@():
    bias = torch.ones(4)

    def inner(given):
        return given + bias

    return inner(x)

around_@()
""",
    # a dataset
    """
class Data_@(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(4), index

def loaded_@():
    for batch, label in torch.utils.data.DataLoader(Data_@(), batch_size=2):
        out = batch.matmul(x)

loaded_@()
""",
    # an argument
    """
def use_@(given, other):
    return given.matmul(other)

def give_@():
    value = torch.eye(4)
    return use_@(x, value)

give_@()
""",
    # at the top of the file
    """
top_@ = torch.ones(4)
out_@ = x / top_@
""",
    # an index
    """
def indexed_@():
    host = torch.ones(4)
    where = torch.tensor([0, 1], device=device)
    return host[where]

indexed_@()
""",
    # a table that a function fills
    """
_table_@ = {}

def mask_@(size):
    if size not in _table_@:
        _table_@[size] = torch.ones(size)
    return _table_@[size]

x * mask_@(4)
""",
    # one of two values that is moved
    """
def pair_@():
    first, second = torch.ones(4), torch.ones(4)
    first = first.to(device)
    return x + first + second

pair_@()
""",
    # a move whose result is dropped
    """
def dropped_@():
    weight = torch.randn(4)
    weight.to(device)
    return x * weight

dropped_@()
""",
)


# Text that says the usual things about devices, and makes no mistake.
_PADDING = """
class Padding_@(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, given):
        return self.layer(given.to(self.scale.device)) * self.scale

def padding_@(given, device=None):
    table = {}
    if "low" not in table:
        table["low"] = torch.zeros(4, device=device)
    moved = given.to(device)
    return moved + table["low"]
"""


def padding(count: int) -> str:
    """Text that makes no mistake, some 600 bytes for each one counted."""
    return "".join(_PADDING.replace("@", str(number)) for number in range(count))


def program(count: int, before: str = "") -> str:
    """The text of a program with `count` mistakes, and some other text before them."""
    return _HEAD + before + "".join(KINDS[n % len(KINDS)].replace("@", str(n)) for n in range(count))


if __name__ == "__main__":
    print(program(int(sys.argv[1])), end="")
