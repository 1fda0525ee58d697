"""A tree of tensors is moved at once; some leaves are meant to stay."""
from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

State = namedtuple("State", "hidden steps")


@dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    y: torch.Tensor
    lengths: torch.Tensor  # stays on the host: packing wants it there
    name: str = ""

    def to(self, device: Any) -> Sample:
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name in ("x", "y")}
        return replace(self, **moved)


def to(tree, device, keep=()):
    def move(path, leaf):
        name = str(getattr(path[-1], "key", getattr(path[-1], "name", ""))) if path else ""
        return leaf.to(device) if isinstance(leaf, torch.Tensor) and name not in keep else leaf

    return pytree.tree_map_with_path(move, tree)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 5, batch_first=True)
        self.tables = nn.ParameterDict({"scale": nn.Parameter(torch.ones(5))})
        self.steps = torch.zeros((), dtype=torch.long)  # counts on the host

    def forward(self, sample, state: State | None = None):
        packed = nn.utils.rnn.pack_padded_sequence(sample.x, sample.lengths, batch_first=True, enforce_sorted=False)
        out, hidden = self.rnn(packed, None if state is None else state.hidden)
        self.steps += 1
        padded, lengths = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        last = padded[torch.arange(len(padded)), lengths - 1]  # indices of the host
        return last * self.tables["scale"], State(hidden.detach(), self.steps)


def build(n):
    x = torch.sin(torch.arange(n * 4 * 3.0)).view(n, 4, 3)
    return Sample(x, (x.sum((1, 2)) > 0).long(), torch.tensor([4, 2, 3, 1][:n]), "toy")


torch.manual_seed(23)
device = "cuda" if torch.cuda.is_available() else "cpu"
sample = build(4).to(device)
encoder = Encoder().to(device)
head = nn.Linear(5, 2).to(device)
twin = copy.deepcopy(encoder)
state = None
opt = torch.optim.Adam([*encoder.parameters(), *head.parameters()], 1e-2)
for _ in range(4):
    z, state = encoder(sample, state)
    loss = nn.functional.cross_entropy(head(z), sample.y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{loss.item():.4f}", int(state.steps), int(twin.steps))

tree = OrderedDict(batch={"x": torch.ones(2), "lengths": torch.tensor([1, 2])}, seen=[torch.zeros(2)], tag="a")
moved = to(tree, device, keep=("lengths",))
print((moved["batch"]["x"] + moved["seen"][0]).sum().item(), moved["batch"]["lengths"].device, moved["tag"])
back = to(moved, "cpu")
print((back["batch"]["x"] * back["batch"]["lengths"]).tolist())
before = twin.to("cpu").state_dict()
change = {k: (v.cpu() - before[k]).abs().max().item() for k, v in encoder.state_dict().items()}
print({k: round(v, 4) for k, v in change.items()})
