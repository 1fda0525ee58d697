"""What is a step away: a name for the device that an object has, a store in another method, a host that gathers."""

import pytest
from idioms import Idioms, assert_fixed

WORDS = """\
import torch
from torch import nn

CARDS = ["cuda:0", "cuda:1"]


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = torch.device("cuda:0"), torch.device("cuda:1")
        self.low, self.high = nn.Linear(2, 2).to(self.near), nn.Linear(2, 2).to(self.far)

    def forward(self, x):
        return self.high(self.low(x).to(self.far))


class Scores:
    def __init__(self, first, second):
        self.first, self.second = torch.device(first), torch.device(second)

    def target(self, rows):
        return torch.tensor(rows)

    def loss(self, x):
        return (x.to(self.second) - self.target([1.0, 2.0])).sum()


class Criterion:
    def __init__(self, model):
        self.model = model
        self.weigh = nn.Linear(2, 1)
        self.rate = torch.full((2,), 0.5, device=model.near)

    def __call__(self, out):
        return self.weigh(out * self.rate).sum()


class Levels:
    def __init__(self, layer):
        w = layer.weight.detach()
        self.codes = (w * 4).long().clamp(0, 2)
        self.levels = torch.arange(3)

    def __call__(self):
        return self.levels[self.codes].sum()


class Masks:
    def __init__(self, model):
        self.masks = {k: torch.ones(p.shape) for k, p in model.named_parameters()}

    def apply(self, model):
        return sum((p * self.masks[k]).sum().item() for k, p in model.named_parameters())


def main():
    torch.manual_seed(0)
    model = Stages()
    x, y = torch.ones(3, 2).to(CARDS[0]), torch.ones(3, 2).to(CARDS[0])
    out = model(x)
    print((out - y).sum().item())
    print(Scores("cuda:0", "cuda:1").loss(x).item())
    criterion = Criterion(model)
    print(criterion(out.detach().to(model.near)).item())
    first, last = Levels(model.low), Levels(model.high)
    print(first().item(), last().item())
    masks = Masks(model)
    print(masks.apply(model))


main()
"""

STORES = """\
import functools

import numpy as np
import torch
from torch import nn

device = torch.device("cuda")


class Momentum:
    def __init__(self, model):
        self.params = list(model.parameters())
        self.buf = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.buf):
            b.mul_(0.9).add_(p)
            p.sub_(b, alpha=0.1)

    def restore(self, arrays):
        self.buf = [torch.from_numpy(a) for a in arrays]


class Graph:
    def __init__(self, n):
        index = torch.arange(n).repeat(2, 1)
        self.adjacency = torch.sparse_coo_tensor(index, torch.ones(n), (n, n)).coalesce()

    def scaled(self, factor):
        i, v = self.adjacency.indices(), self.adjacency.values() * factor
        return torch.sparse_coo_tensor(i, v, self.adjacency.shape)

    def to(self, device):
        self.adjacency.to(device)
        return self


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def begin(self):
        return torch.zeros(1, 2)

    def forward(self, x, h):
        h = torch.tanh(self.layer(x) + h)
        return h.sum(), h


class Window(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.mask = self.make(size)

    def make(self, size):
        return torch.ones(size).cumsum(0)

    def forward(self, x):
        return self.layer(x) * self.mask


def put_back(model, values):
    for p, value in zip(model.parameters(), values):
        p.data = value + 1


def to_device(obj, device):
    if torch.is_tensor(obj):
        return obj.to(device)
    if isinstance(obj, dict):
        return {k: to_device(v, device) for k, v in obj.items()}
    return obj


@functools.lru_cache
def table(n, width):
    rates = 1 / torch.arange(1, width + 1).float()
    angle = torch.outer(torch.arange(n).float(), rates)
    return angle.cos(), angle.sin()


def turned(x):
    cos, sin = table(1, 2)
    return x * cos + x * sin


def main():
    torch.manual_seed(0)
    x = torch.ones(1, 2, device=device)
    cell = Cell().to(device)
    h = cell.begin()
    for row in torch.ones(3, 1, 2):
        out, h = cell(row.to(device), h)
    print(out.item())
    graph = Graph(2).to(device)
    adjacency = graph.scaled(2.0)
    print(torch.sparse.mm(adjacency, x.t()).sum().item())
    print(Window(2).to(device)(x).sum().item())
    batch = to_device({"x": torch.ones(2), "more": [torch.ones(2), 3]}, device)
    more, n = batch["more"]
    print((batch["x"] + more).sum().item() / n)
    print(turned(x).sum().item())
    opt = Momentum(cell)
    opt.restore([np.ones(p.shape, dtype=np.float32) for p in opt.params])
    opt.step()
    put_back(cell, [p.detach().cpu() for p in cell.parameters()])
    print(cell.layer(x).sum().item())


main()
"""

HOST = """\
from collections import namedtuple

import torch

Batch = namedtuple("Batch", "rows act index")


class Meter:
    def __init__(self, n):
        self.hits, self.n = torch.zeros(n), 0

    def update(self, hit):
        self.hits += hit
        self.n += 1

    def report(self):
        return (self.hits / self.n).tolist()


class Replay:
    def __init__(self, n):
        self.rows, self.act, self.weight = torch.ones(n, 2), torch.zeros(n), torch.ones(n)

    def sample(self, n, device):
        index = torch.arange(n)
        take = lambda t: t[index].to(device)
        act = self.act[index]
        return Batch(take(self.rows), act, index)

    def reweigh(self, index, error):
        self.weight[index] = error.abs().clamp(max=0.5)


class Average:
    def __init__(self, n):
        self.mean = torch.zeros(n)

    def __call__(self, x):
        self.mean.mul_(0.9).add_(x, alpha=0.1)
        return x - self.mean


def main():
    device = torch.device("cuda")
    meter, replay, average = Meter(2), Replay(4), Average(2)
    for _ in range(2):
        batch = replay.sample(2, device)
        error = batch.rows.sum(1) - batch.act
        replay.reweigh(batch.index, error)
        meter.update(error)
        print(average(error).sum().item())
    print(meter.report(), replay.weight.sum().item())


main()
"""

PROGRAMS = {
    "words": Idioms(
        WORDS,
        {
            "torch.ones(3, 2).to(CARDS[0])\n": "torch.ones(3, 2).to(CARDS[1])\n",
            "torch.tensor(rows)": "torch.tensor(rows, device=self.second)",
            "nn.Linear(2, 1)": "nn.Linear(2, 1).to(model.near)",
            "torch.arange(3)": "torch.arange(3, device=w.device)",
            "torch.ones(p.shape)": "torch.ones(p.shape, device=p.device)",
        },
    ),
    "stores": Idioms(
        STORES,
        {
            "torch.from_numpy(a)": "torch.from_numpy(a).to(device)",
            "        self.adjacency.to(device)": "        self.adjacency = self.adjacency.to(device)",
            "return torch.zeros(1, 2)": "return torch.zeros(1, 2, device=device)",
            "self.mask = self.make(size)": 'self.register_buffer("mask", self.make(size), persistent=False)',
            "return obj\n": "return [to_device(v, device) for v in obj] if isinstance(obj, list) else obj\n",
            "torch.outer(torch.arange(n).float(), rates)": "torch.outer(torch.arange(n).float(), rates).to(device)",
            "p.data = value + 1": "p.data = (value + 1).to(p.device)",
        },
    ),
    "host": Idioms(
        HOST,
        {
            "self.hits += hit": "self.hits += hit.cpu()",
            "Batch(take(self.rows), act,": "Batch(take(self.rows), act.to(device),",
            "replay.reweigh(batch.index, error)": "replay.reweigh(batch.index, error.cpu())",
            "self.mean = torch.zeros(n)": 'self.mean = torch.zeros(n, device="cuda")',
        },
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_edit_of_the_author(program, tmp_path, name):
    assert_fixed(program, tmp_path, PROGRAMS[name], devices=2)


GUARDED = """\
import torch
from torch import nn

cuda = torch.cuda.is_available()


class Smooth:
    def __init__(self):
        self.kernel = torch.ones(2)

    def to(self, where):
        self.kernel = self.kernel.to(where)
        return self

    def __call__(self, x):
        return (x * self.kernel).sum()


net, smooth = nn.Linear(2, 2), Smooth()
marks = torch.tensor([[1.0, 2.0]])
if cuda:
    net = net.cuda()
x = torch.ones(1, 2, device=net.weight.device)
print((net(x) - marks).sum().item(), smooth(x).item())
"""

GUARDED_EDITS = {
    "nn.Linear(2, 2), Smooth()": 'nn.Linear(2, 2), Smooth().to("cuda:0" if cuda else "cpu")',
    "marks = torch.tensor([[1.0, 2.0]])": 'marks = torch.tensor([[1.0, 2.0]], device="cuda:0" if cuda else "cpu")',
}


def test_no_edit_makes_a_program_need_a_card(program, tmp_path):
    assert_fixed(program, tmp_path, Idioms(GUARDED, GUARDED_EDITS))


NORMS = """\
import torch
from torch import nn

cards = [nn.Linear(2, 2).to(f"cuda:{n}") for n in range(2)]


def clip(params):
    params = [p for p in params if p.grad is not None]
    norms = [p.grad.norm() for p in params]
    return torch.stack(norms).norm().item()


x = torch.ones(1, 2, device="cuda:0")
cards[1](cards[0](x).to("cuda:1")).sum().backward()
print(clip([p for card in cards for p in card.parameters()]))
"""


def test_what_is_gathered_of_several_cards_goes_to_that_of_one_of_them(program, tmp_path):
    edits = {"[p.grad.norm() for p in params]": "[p.grad.norm().to(params[-1].device) for p in params]"}
    assert_fixed(program, tmp_path, Idioms(NORMS, edits), devices=2)
