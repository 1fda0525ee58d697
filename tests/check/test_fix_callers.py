"""What the callers of a function know, and what stands beside a statement: `locus fix` edits where its author would."""

import pytest
from idioms import Idioms, assert_fixed

CALLERS = """\
import copy

import torch
from torch import nn


class Task:
    def __init__(self, device):
        self.device = device
        self.alpha = [0.5, 1.0]


class Average:
    def __init__(self, model):
        self.model = copy.deepcopy(model)

    def __call__(self, x):
        return self.model(x)


class Matcher:
    def __init__(self, anchors):
        self.anchors = anchors

    def distance(self, x):
        return (x - self.anchors).abs().sum()

    def scale(self, x):
        return x * self.anchors.log()


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    @property
    def device(self):
        return self.layer.weight.device

    def prior(self):
        return torch.ones(2)

    def forward(self, x):
        return self.layer(x) * self.prior()


def grid(n):
    return torch.tensor([[i + 1.0, i + 2.0] for i in range(n)])


def build_loss(task):
    alpha = torch.as_tensor(task.alpha)

    def loss(x):
        return (x * alpha).sum() + (x - alpha).sum()

    return loss


def disc(n, device):
    axis = torch.linspace(-1, 1, n)
    inside = (axis[:, None] + axis[None, :]).abs()
    return inside.square()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    x = torch.ones(3, 2, device=device)
    student = nn.Linear(2, 2)
    teacher = Average(student)
    student = student.to(device)
    print((student(x) - teacher(x)).sum().item())
    anchors = grid(3)
    matcher = Matcher(anchors)
    print(matcher.distance(x).item(), matcher.scale(x).sum().item())
    task = Task(device)
    loss = build_loss(task)
    print(loss(x).item())
    print((disc(2, device) * x[:2]).sum().item())
    print(Scorer().to(device)(x).sum().item())


main()
"""

BESIDE = """\
import torch
from torch import nn


class Motion:
    OBSERVE = torch.eye(2)

    def __init__(self):
        self.observe = self.OBSERVE


class Filter(nn.Module):
    def __init__(self, motion):
        super().__init__()
        self.motion = motion
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        h = self.motion.observe
        first = x @ h * self.scale
        return first @ h.T


def force(x, links, device):
    a = links[:, 0].to(device)
    b = links[:, 1]
    return torch.zeros_like(x).index_add_(0, a, x).index_add_(0, b, x)


def sweep(x):
    rates = torch.logspace(-2, -1, 3)
    losses = []
    for rate in rates.tolist():
        losses.append((x * rate).sum().reshape(1))
    return rates, torch.cat(losses)


def batches():
    for _ in range(2):
        yield torch.ones(2, 2), torch.ones(2), torch.arange(2)


def stream(device):
    for i in range(2):
        x = torch.ones(2, 2) + i
        y = x.sum(1) + 0.5
        yield i, x.to(device), y


def main():
    device = torch.device("cuda")
    x = torch.ones(2, 2, device=device)
    for i, a, b in stream(device):
        print(i, (a.mean(1) - b).sum().item())
    print(force(x, torch.tensor([[0, 1], [1, 0]]), device).sum().item())
    print(Filter(Motion()).to(device)(x).sum().item())
    rates, losses = sweep(x)
    print((losses.diff() / rates.log().diff()).sum().item())
    for inputs, lengths, words in batches():
        inputs, lengths = inputs.to(device), lengths.to(device)
        words = words.long()
        print((inputs.sum(1) + lengths + words).sum().item())
    for inputs, lengths, tags in batches():
        inputs, _ = inputs.to(device), tags.to(device)
        print((inputs.sum(1) + tags).sum().item())


main()
"""

CARDS = """\
import torch

FRONT, BACK = torch.device("cuda:0"), torch.device("cuda:1")


def main():
    x = torch.ones(4, device=BACK)
    y = torch.ones(4, device=BACK)
    ramp = torch.linspace(0.5, 1.5, 4, device=FRONT)
    for _ in range(2):
        spectrum = x - y.square()
        print((spectrum * ramp).sum().item())


main()
"""

PROGRAMS = {
    "callers": Idioms(
        CALLERS,
        {
            "Average(student)": "Average(student.to(device))",
            "anchors = grid(3)": "anchors = grid(3).to(device)",
            "torch.as_tensor(task.alpha)": "torch.as_tensor(task.alpha, device=task.device)",
            "torch.linspace(-1, 1, n)": "torch.linspace(-1, 1, n, device=device)",
            "return torch.ones(2)": "return torch.ones(2, device=self.device)",
        },
    ),
    "beside": Idioms(
        BESIDE,
        {
            "h = self.motion.observe": "h = self.motion.observe.to(x.device)",
            "b = links[:, 1]": "b = links[:, 1].to(device)",
            "rates.log().diff())": "rates.log().diff().to(device))",
            "words = words.long()": "words = words.long().to(device)",
            "inputs, _ = inputs": "inputs, tags = inputs",
            "yield i, x.to(device), y": "yield i, x.to(device), y.to(device)",
        },
    ),
    "cards": Idioms(CARDS, {"4, device=FRONT)": "4, device=BACK)"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_edit_of_the_author(program, tmp_path, name):
    assert_fixed(program, tmp_path, PROGRAMS[name], devices=2)
