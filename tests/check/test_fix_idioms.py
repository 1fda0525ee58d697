"""Ways in which people write programs: `locus fix` makes the edit that its author would make, and nothing else."""

import pytest
from idioms import Idioms, assert_fixed

OBJECTS = """\
import dataclasses

import torch
from torch import nn
from torch.utils.data import DataLoader


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor

    def to(self, device):
        return Batch(self.x.to(device), self.y)


@dataclasses.dataclass
class State:
    h: torch.Tensor
    c: torch.Tensor

    def to(self, device):
        return dataclasses.replace(self, h=self.h.to(device))


def collate(samples):
    x = torch.stack([s["x"] for s in samples]).to(DEVICE)
    y = torch.stack([s["y"] for s in samples])
    return {"x": x, "y": y}


DEVICE = torch.device("cuda")
torch.manual_seed(0)
model = nn.Linear(2, 2).to(DEVICE)
batch = Batch(torch.ones(3, 2), torch.ones(3, 2)).to(DEVICE)
print((model(batch.x) - batch.y).sum().item())
state = State(torch.ones(2), torch.ones(2)).to(DEVICE)
print((state.h * state.c).sum().item())
for part in DataLoader([{"x": torch.ones(2), "y": torch.ones(2)}] * 4, batch_size=2, collate_fn=collate):
    print((model(part["x"]) - part["y"]).sum().item())
"""

CALLS = """\
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

MASKS = {}


def mask(size):
    if size not in MASKS:
        MASKS[size] = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
    return MASKS[size]


def attend(scores):
    return scores.masked_fill(mask(scores.size(-1)), 0)


def pack(tensor):
    return tensor.device, tensor.cpu()


def unpack(packed):
    where, tensor = packed
    return tensor


def main():
    device = torch.device("cuda")
    labels = torch.arange(4, device=device)
    print(attend(torch.ones(3, 3).to(device)).sum().item())
    print(torch.eye(4)[labels].sum().item())
    generator = torch.Generator(device=device).manual_seed(1)
    noise = torch.randn(4, generator=generator)
    print((noise * labels).shape)
    drawn, ones = torch.rand(4), torch.ones(4, device=device)
    print((drawn + ones).shape)
    weight = torch.ones(4, device=device, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        loss = (weight * weight).sum()
    loss.backward()
    print(weight.grad.sum().item())


main()
"""

SCRIPT = """\
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.size(0)).unsqueeze(1)
        return self.left(x) * (places + 1)


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))

    @property
    def mask(self):
        return torch.tril(torch.ones(4, 4))

    def forward(self, x):
        return x @ (self.weight * self.mask)


torch.manual_seed(0)
x = torch.ones(3, 4, device="cuda")
causal = Causal().to("cuda")
print(causal(x).sum().item())
traced = torch.jit.trace(Gate().to("cuda"), (x,))
print(f"{traced(x).sum().item():.5f}")
model = nn.Linear(4, 2)
scripted = torch.jit.script(model)
print(f"{scripted(x).sum().item():.5f}")
"""


OBJECTS_DEVICES = """
import torch
from torch import nn

class Accelerator:
    def __init__(self):
        self.state = {"device": torch.device("cuda")}

    @property
    def device(self):
        return self.state["device"]

class Engine:
    def __init__(self, module):
        self.device = torch.device("cuda", 0)
        self.module = module.to(self.device)

    def __call__(self, *args):
        return self.module(*args)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.b(self.a(x).relu()), y)

def train(accelerator):
    model = nn.Embedding(9, 4).to(accelerator.device)
    for step in range(2):
        tokens = torch.arange(6).reshape(2, 3)
        mask = torch.ones(2, 3, device=accelerator.device)
        loss = (model(tokens).square().sum(-1) * mask).mean()
        loss.backward()
    return loss

torch.manual_seed(0)
print(train(Accelerator()).item() > 0)
engine = Engine(Net())
for step in range(2):
    rows = torch.ones(5, 4)
    targets = torch.zeros(5, dtype=torch.long, device=engine.device)
    loss = engine(rows, targets)
    loss.backward()
print(loss.item() > 0)
"""

BY_KEY = """\
import torch


class Gen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.device = torch.device("cpu")

    def forward(self, n):
        _device = self.device
        if n > 100:
            translations = torch.stack([torch.rand(n), torch.rand(n)], dim=-1)
            translations = translations.to(device=_device)
        else:
            translations = torch.zeros((n, 2), device=_device)
        return {"translations": translations}


class Aug(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gen = Gen()
        self.device = torch.device("cpu")

    def batch_prob(self, n):
        return torch.ones(n, device=self.device)

    def forward_parameters(self, n):
        batch_prob = self.batch_prob(n)
        _params = self.gen(n)
        if _params is None:
            _params = {}
        _params["batch_prob"] = batch_prob
        return _params

    def forward(self, x):
        params = self.forward_parameters(len(x))
        return self.transform(x, params)

    def transform(self, x, params):
        batch_prob = params["batch_prob"]
        to_apply = torch.atleast_1d(batch_prob > 0.5)
        return torch.where(to_apply, x, x * 2)


print(Aug()(torch.ones(3, device="cuda")))
"""

PROGRAMS = {
    "objects": Idioms(
        OBJECTS,
        {
            "self.x.to(device), self.y)": "self.x.to(device), self.y.to(device))",
            "h=self.h.to(device))": "h=self.h.to(device), c=self.c.to(device))",
            'torch.stack([s["y"] for s in samples])': 'torch.stack([s["y"] for s in samples]).to(DEVICE)',
        },
    ),
    "calls": Idioms(
        CALLS,
        {
            "mask(scores.size(-1)), 0": "mask(scores.size(-1)).to(scores.device), 0",
            "torch.eye(4)": "torch.eye(4, device=device)",
            "generator=generator)": "generator=generator, device=device)",
            "torch.rand(4), ": "torch.rand(4, device=device), ",
            "    return tensor\n": "    return tensor.to(where)\n",
        },
    ),
    "devices of objects": Idioms(
        OBJECTS_DEVICES,
        {
            "torch.arange(6).reshape": "torch.arange(6, device=accelerator.device).reshape",
            "torch.ones(5, 4)": "torch.ones(5, 4, device=engine.device)",
        },
    ),
    "put in a dict by key": Idioms(BY_KEY, {"torch.where(to_apply, x,": "torch.where(to_apply.to(x.device), x,"}),
    "script": Idioms(
        SCRIPT,
        {
            "torch.arange(x.size(0))": "torch.arange(x.size(0), device=x.device)",
            "tril(torch.ones(4, 4))": "tril(torch.ones(4, 4, device=next(self.parameters()).device))",
            "model = nn.Linear(4, 2)": 'model = nn.Linear(4, 2).to("cuda")',
        },
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_edits_of_an_author(program, tmp_path, name):
    assert_fixed(program, tmp_path, PROGRAMS[name])
