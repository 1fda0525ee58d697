"""Each reason once, for tests/check/words.txt: what `locus check` says of it, word for word."""

import functools
import tempfile

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
x = torch.ones(4, 3, device="cuda:0")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = torch.ones(3)
        self.extra = [nn.Linear(3, 3)]
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.ones(3)
        return self.extra[0](self.fc(x)) * self.scale + self.kept


def attributes_and_containers():
    Net().to("cuda:0")(x)


def defaults():
    return x + torch.arange(3.0)


def not_moved():
    net = nn.Linear(3, 2)
    return net(x)


def not_assigned():
    y = torch.ones(3)
    y.to("cuda:0")
    return x * y


def loader():
    for batch in DataLoader(torch.ones(4, 3), batch_size=4):
        x - batch


class Patchy(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.ones(3, device="cuda:0" if i != 2 else "cpu")


def patchy():
    data = Patchy()
    return [x[0] + data[i] for i in range(4)]


def weighted():
    loss = nn.CrossEntropyLoss(weight=torch.ones(3))
    return loss(x, torch.zeros(4, dtype=torch.long, device="cuda:0"))


def state():
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    net.to("cuda:0")
    net(x).sum().backward()
    optimizer.step()


def checkpoint():
    with tempfile.NamedTemporaryFile() as file:
        torch.save(torch.ones(3), file.name)
        mean = torch.load(file.name)
    return x - mean


def stages():
    first, second = nn.Linear(3, 3).to("cuda:0"), nn.Linear(3, 3).to("cuda:1")
    return second(first(x))


class Pinned(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.w + torch.ones(3, device="cuda:0")


def replicas():
    nn.DataParallel(Pinned().to("cuda:0"))(x)


def indices():
    table = torch.ones(5, 3, device="cpu")
    return table[torch.tensor([0, 1], device="cuda:0")]


def lengths():
    return nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 1), torch.tensor([3, 2], device="cuda:0"), True)


def generators():
    return torch.rand(3, device="cuda:0", generator=torch.Generator())


def host():
    return numpy.asarray(x)


def gradients():
    y = x.clone().requires_grad_()
    (y * 2).backward(torch.ones(4, 3))


def early():
    buffer = torch.empty(4, 3).pin_memory()
    buffer.copy_(x, non_blocking=True)
    return buffer.sum()


class Worker(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return torch.ones(3).to("cuda:0")


def forked():
    for _ in DataLoader(Worker(), batch_size=2, num_workers=1, multiprocessing_context="fork"):
        pass


@functools.cache
def mask(n):
    return torch.ones(n)


for each in (
    attributes_and_containers, defaults, not_moved, not_assigned, loader, patchy, weighted, state, checkpoint, stages,
    replicas, indices, lengths, generators, host, gradients, early, forked,
):  # fmt: skip
    each()
print("the end")
