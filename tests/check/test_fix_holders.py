"""Tensors that objects, threads and layers hold: `locus fix` edits the line of the holder that left them behind."""

import pytest
from idioms import Idioms, assert_fixed

DROPPED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Graph:
    def __init__(self):
        self.x, self.mask, self.adjacency = torch.ones(3, 2), torch.ones(3, 1), torch.eye(3)

    def to(self, device):
        self.x.to(device)
        self.adjacency = self.adjacency.to(device)
        self.mask.cuda()
        return self


class State:
    def __init__(self):
        self.h, self.c = torch.ones(2), torch.ones(2)

    def to(self, device):
        for name, part in vars(self).items():
            part.to(device)
        return self


class Tables:
    def __init__(self):
        self.tables = {"w": torch.ones(2, 2), "b": torch.zeros(2)}

    def cuda(self):
        for name, table in self.tables.items():
            table.cuda()
        return self

    def __call__(self, x):
        return x @ self.tables["w"] + self.tables["b"]


def to_device(batch, device):
    for key, value in batch.items():
        value.to(device)
    return batch


device = torch.device("cuda")
torch.manual_seed(0)
model = nn.Linear(2, 2).to(device)
graph = Graph().to(device)
print((graph.adjacency @ model(graph.x) * graph.mask).sum().item())
state = State().to(device)
print((torch.ones(2, device=device) * state.h + state.c).sum().item())
tables = Tables().cuda()
for batch in DataLoader([{"x": torch.ones(2), "y": torch.ones(2)}] * 4, batch_size=2):
    batch = to_device(batch, device)
    print((tables(model(batch["x"])) - batch["y"]).sum().item())
"""

PREFETCHED = """\
import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_x, self.next_y = next(self.loader)
        except StopIteration:
            self.next_x = self.next_y = None
            return
        with torch.cuda.stream(self.stream):
            self.next_x = self.next_x.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        x, y = self.next_x, self.next_y
        self.preload()
        return x, y


def on_device(loader):
    for x, lengths, y in loader:
        yield x.to(device), y, lengths


def work(loader, out):
    for x, y in loader:
        x = x.to(device)
        y = y.long()
        out.put({"x": x, "y": y})
    out.put(None)


def in_thread(loader):
    out = queue.Queue(maxsize=2)
    threading.Thread(target=work, args=(loader, out), daemon=True).start()
    while (item := out.get()) is not None:
        yield item


def ahead(loader, device):
    last = None
    for x, y in loader:
        x = x.to(device)
        if last is not None:
            yield last
        last = (x, y)
    yield last


device = torch.device("cuda")
torch.manual_seed(0)
model = nn.Linear(2, 3).to(device)
loss = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.randn(8, 2), torch.randint(0, 3, (8,))), batch_size=4)
prefetcher = Prefetcher(loader)
inputs, labels = prefetcher.next()
while inputs is not None:
    print(f"{loss(model(inputs), labels).item():.4f}")
    inputs, labels = prefetcher.next()
for item in in_thread(loader):
    print(f"{loss(model(item['x']), item['y']).item():.4f}")
for image, label in ahead(loader, device):
    print(f"{loss(model(image), label).item():.4f}")
with_lengths = TensorDataset(torch.randn(4, 2), torch.ones(4), torch.randint(0, 3, (4,)))
for x, y, lengths in on_device(DataLoader(with_lengths, batch_size=4)):
    print(f"{loss(model(x), y).item() / lengths.sum().item():.4f}")
"""

ON_ANOTHER_CARD = """\
import torch
from torch import nn

torch.manual_seed(0)


class Positions(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("pe", torch.randn(1, n))

    def forward(self, x):
        return x + self.pe


class Tail(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = Positions(8)
        self.norm = nn.BatchNorm1d(8, affine=False)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.norm(self.pos(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 8)
        self.tail = Tail()

    def forward(self, x):
        h = self.head(x)
        return self.tail(h.to("cuda:1"))


net = Net()
net.head.to("cuda:0")
net.tail.to("cuda:1")
stats = {"pe": torch.zeros(1, 8, device="cuda:0")}
net.tail.pos.pe = stats["pe"]
net.tail.norm.running_mean = torch.zeros(8).to("cuda:0")
print(f'{net(torch.ones(3, 4, device="cuda:0")).sum().item():.4f}')
"""

PROGRAMS = {
    "dropped": Idioms(
        DROPPED,
        {
            "        self.x.to(device)": "        self.x = self.x.to(device)",
            "        self.mask.cuda()": "        self.mask = self.mask.cuda()",
            "            part.to(device)": "            setattr(self, name, part.to(device))",
            "            table.cuda()": "            self.tables[name] = table.cuda()",
            "        value.to(device)": "        batch[key] = value.to(device)",
        },
    ),
    "prefetched": Idioms(
        PREFETCHED,
        {
            "            self.next_x = self.next_x.cuda(non_blocking=True)\n": (
                "            self.next_x = self.next_x.cuda(non_blocking=True)\n"
                "            self.next_y = self.next_y.cuda(non_blocking=True)\n"
            ),
            "yield x.to(device), y, lengths": "yield x.to(device), y.to(device), lengths",
            "y = y.long()": "y = y.long().to(device)",
            "        x = x.to(device)\n        if": "        x = x.to(device)\n        y = y.to(device)\n        if",
        },
    ),
    "on another card": Idioms(
        ON_ANOTHER_CARD,
        {
            'zeros(1, 8, device="cuda:0")': 'zeros(1, 8, device="cuda:1")',
            'running_mean = torch.zeros(8).to("cuda:0")': 'running_mean = torch.zeros(8).to("cuda:1")',
        },
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_of_the_holder(program, tmp_path, name):
    assert_fixed(program, tmp_path, PROGRAMS[name], devices=2)
