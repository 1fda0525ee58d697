"""Mistakes as people make them every day, and the edits that their authors would make."""

import pytest
from idioms import Idioms, assert_fixed

LABELS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"
torch.manual_seed(0)
model = nn.Linear(4, 2).to(device)
criterion = nn.CrossEntropyLoss()
data = TensorDataset(torch.randn(8, 4), torch.arange(8) % 2)
for number, (inputs, labels) in enumerate(DataLoader(data, batch_size=4)):
    inputs = inputs.to(device)
    loss = criterion(model(inputs), labels)
    print(number, f"{loss.item():.4f}")
"""

SETTINGS = """\
import torch
from torch import nn


def train(cfg):
    model = nn.Linear(4, 2).to(cfg["device"])
    scale = torch.ones(2)
    for _ in range(2):
        x = torch.ones(3, 4).to(cfg["device"])
        print((model(x) * scale).shape)


train({"device": "cuda"})
"""

ASKED = """\
import torch
from torch import nn


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main():
    net = nn.Linear(4, 2).to(get_device())
    shift = torch.full((2,), 0.5)
    x = torch.ones(3, 4).to(get_device())
    print((net(x) - shift).shape)


main()
"""

LAST_CARD = """\
import torch
from torch import nn

devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
first = nn.Linear(4, 4).to(devices[0])
last = nn.Linear(4, 4).to(devices[-1])
y = last(first(torch.ones(2, 4).to(devices[0])).to(devices[-1]))
print(nn.functional.mse_loss(y, torch.ones(2, 4).to(devices[0])).shape)
"""

PLAIN_CUDA = """\
import torch
from torch import nn

generator = nn.Sequential(nn.Linear(8, 4), nn.Tanh()).cuda()
weights = torch.tensor([1.0, 2.0, 1.0, 2.0])
criterion = nn.BCEWithLogitsLoss(pos_weight=weights)


def sample(z):
    return generator(z)


fixed = torch.ones(4, 8)
print(criterion(sample(fixed), torch.ones(4, 4).cuda()).shape)
"""

DROPPED = """\
from typing import NamedTuple

import torch
from torch import nn


class Batch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor

    def cuda(self):
        return Batch(*(part.cuda() for part in self))


class Prior(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)
        self.prior = None

    def forward(self, x):
        return self.out(x) + self.prior


model = Prior().cuda()
prior = torch.tensor([0.7, 0.3])
prior.cuda()
model.prior = prior
batch = Batch(torch.ones(3, 4), torch.tensor([0, 1, 0]))
batch.cuda()
print(nn.functional.cross_entropy(model(batch.x), batch.y).shape)
"""

NOT_MOVED = """\
import torch


class Scores:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self

    def to(self, device):
        self.mean, self.std = self.mean.to(device), self.std.to(device)
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std


def main():
    device = torch.device("cuda")
    data = torch.arange(10.0).reshape(5, 2)
    scores = Scores().fit(data)
    print(scores(data.to(device)).shape)


main()
"""

BASE_CLASS = """\
import torch
from torch import nn


class Base:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.setup()

    def fit(self, batches):
        for batch in batches:
            print(f"{self.loss(batch).item():.4f}")


class Weighted(Base):
    def setup(self):
        self.weight = torch.tensor([1.0, 2.0, 4.0])

    def loss(self, batch):
        return (self.model(batch["x"].to(self.device)) * self.weight).mean()


def batches(count):
    for _ in range(count):
        yield {"x": torch.ones(8, 5)}


torch.manual_seed(0)
Weighted(nn.Linear(5, 3), "cuda").fit(batches(2))
"""

GENERATED = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)

    def fit(self, batches):
        for batch in batches:
            print(self.model(batch["parts"]["x"]).shape)


def batches(count):
    for _ in range(count):
        yield {"parts": {"x": torch.ones(8, 5)}}


Trainer(nn.Linear(5, 3), "cuda").fit(batches(2))
"""

SAMPLED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)

    def forward(self, x):
        return self.words(x)


def sample(model, start):
    token = torch.tensor([[start]])
    for _ in range(2):
        token = model(token)[:, -1].argmax(-1, keepdim=True)
    return token


def main():
    card = torch.device("cuda", 0)
    print(sample(Net().to(card), 3).shape)


main()
"""

LATE_LAYER = """\
import numpy as np
import torch
from torch import nn

device = torch.device("cuda")


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        if self.out is None:
            self.out = nn.Linear(x.size(-1), 2)
        return self.out(x)


words = nn.Embedding(12, 6).to(device)
words.weight.data = torch.from_numpy(np.ones((12, 6), dtype=np.float32))
net = nn.Sequential(nn.Linear(6, 4), Head()).to(device)
print(net(words(torch.zeros(2, dtype=torch.long, device=device))).shape)
"""

LENGTHS = """\
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader

device = torch.device("cuda:0")
rnn = nn.GRU(3, 4, batch_first=True).to(device)


def forward(x, lengths):
    out, _ = rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    mask = torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]
    return out.data.shape, mask.sum().item()


for x, lengths in DataLoader([(torch.ones(5, 3), 5 - i) for i in range(4)], batch_size=2):
    print(forward(x.to(device), lengths))
"""

MIXED = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
data = [{"boxes": torch.ones(1, 4), "id": i} for i in range(4)]
anchors = torch.zeros(3, 4, device=device)
for targets in DataLoader(data, batch_size=2, collate_fn=list):
    targets = [{k: v for k, v in t.items()} for t in targets]
    print([torch.max(anchors, t["boxes"]).sum().item() for t in targets])
"""

DRAWN = """\
import torch
from torch.distributions import Beta


def mix(x):
    share = Beta(torch.tensor(0.4), torch.tensor(0.4)).sample((x.size(0), 1))
    return share * x + (1 - share) * x.flip(0)


torch.manual_seed(0)
print(f"{mix(torch.ones(4, 2, device='cuda')).sum().item():.3f}")
"""

SETTER = """\
import numpy as np
import torch
from torch import nn


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)
        self.offset = None

    def set_offset(self, offset):
        self.offset = offset

    def forward(self, x):
        return self.out(x) + self.offset.log()


def main():
    torch.manual_seed(0)
    model = Offset().cuda()
    offset = torch.tensor([0.7, 0.3])
    offset.cuda()
    model.set_offset(offset)
    losses = []
    for _ in range(3):
        losses.append(model(torch.ones(3, 4).cuda()).sum().detach())
    print(f"{np.mean(losses):.3f}")


main()
"""

EVERYDAY = {
    "labels": Idioms(
        LABELS, {"    inputs = inputs.to(device)\n": "    inputs = inputs.to(device)\n    labels = labels.to(device)\n"}
    ),
    "settings": Idioms(SETTINGS, {"torch.ones(2)": 'torch.ones(2, device=cfg["device"])'}),
    "asked": Idioms(ASKED, {"torch.full((2,), 0.5)": "torch.full((2,), 0.5, device=get_device())"}),
    "last_card": Idioms(
        LAST_CARD, {"mse_loss(y, torch.ones(2, 4).to(devices[0]))": "mse_loss(y, torch.ones(2, 4).to(devices[-1]))"}
    ),
    "plain_cuda": Idioms(
        PLAIN_CUDA,
        {"pos_weight=weights)": "pos_weight=weights).cuda()", "torch.ones(4, 8)": "torch.ones(4, 8).cuda()"},
    ),
    "dropped": Idioms(
        DROPPED, {"\nprior.cuda()": "\nprior = prior.cuda()", "\nbatch.cuda()": "\nbatch = batch.cuda()"}
    ),
    "setter": Idioms(SETTER, {"    offset.cuda()": "    offset = offset.cuda()", ".detach())": ".detach().item())"}),
    "not_moved": Idioms(NOT_MOVED, {"Scores().fit(data)": "Scores().fit(data).to(device)"}),
    "base_class": Idioms(BASE_CLASS, {"[1.0, 2.0, 4.0])": "[1.0, 2.0, 4.0], device=self.device)"}),
    "generated": Idioms(
        GENERATED,
        {
            "in batches:\n": 'in batches:\n            batch["parts"]["x"] = batch["parts"]["x"].to(self.device)\n',
        },
    ),
    "sampled": Idioms(SAMPLED, {"[[start]])": "[[start]], device=next(model.parameters()).device)"}),
    "late_layer": Idioms(
        LATE_LAYER,
        {
            "nn.Linear(x.size(-1), 2)": "nn.Linear(x.size(-1), 2).to(x.device)",
            "dtype=np.float32))": "dtype=np.float32)).to(device)",
        },
    ),
    "lengths": Idioms(LENGTHS, {"< lengths[:, None]": "< lengths[:, None].to(device)"}),
    "mixed": Idioms(MIXED, {"{k: v for": "{k: v.to(device) if torch.is_tensor(v) else v for"}),
    "drawn": Idioms(DRAWN, {".sample((x.size(0), 1))": ".sample((x.size(0), 1)).to(x.device)"}),
}


@pytest.mark.parametrize("name", EVERYDAY)
def test_the_edit_that_its_author_would_make(program, tmp_path, name):
    assert_fixed(program, tmp_path, EVERYDAY[name], devices=3 if name == "last_card" else 1)
