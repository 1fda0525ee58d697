"""Ways that values take through a program: `locus fix` edits the line where its author would have moved them."""

import pytest
from checker import check_source
from idioms import Idioms, assert_fixed

WAYS = """\
import dataclasses
import io

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class Config:
    device: str = "cuda"


class Scaler:
    def fit(self, y):
        self.mean = y.mean(0, keepdim=True)
        return self

    def __call__(self, y):
        return y - self.mean

    def load(self, state):
        self.mean = state["mean"]
        self.std = state["std"].to("cuda")


class Adapter(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.up = nn.Linear(2, 2)

    def forward(self, x):
        return self.up(self.inner(x))


class Tables:
    def __init__(self, cfg):
        self.cfg, self.pair = cfg, None

    def both(self):
        if self.pair is None:
            self.pair = torch.from_numpy(np.ones((3, 2))).to(self.cfg.device), torch.from_numpy(np.arange(3))
        return self.pair

    def ratios(self, x):
        steps = torch.linspace(0, 1, 2)
        return x * steps


def smooth(targets, classes):
    soft = torch.full((len(targets), classes), 0.1)
    return soft + 0


def gather(steps):
    kept = {name: [] for name in ("x", "done")}
    for step in range(steps):
        kept["x"].append(torch.ones(2, device=device))
        kept["done"].append(torch.from_numpy(np.zeros(2, dtype=np.float32)))
    return {name: torch.stack(values) for name, values in kept.items()}


def sample(n):
    x = torch.ones(n, 2).to(device)
    weight = torch.ones(n).softmax(0)
    return x, weight


def halves(n):
    x, y = torch.arange(n).float(), torch.arange(n).float() * 2
    xs, xq = x.to(device).split(n // 2)
    ys, yq = y.split(n // 2)
    return xs, ys


torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(2, 2).to(device)
kept = gather(3)
print((kept["x"] * kept["done"]).sum().item())
x, weight = sample(3)
print((model(x).mean(1) * weight).sum().item())
for a, b in [(torch.ones(2), torch.ones(2))]:
    print((model(a.to(device)) - b).sum().item())
xs, ys = halves(4)
print((xs - ys).sum().item())
tables = Tables(Config())
points, numbers = tables.both()
print(numbers[points.long()[:, 0]].sum().item(), tables.ratios(x).sum().item())
wrapped = Adapter(model)
print(wrapped(x).sum().item())
labels = torch.zeros(3, dtype=torch.long, device=device)
print((smooth(labels, 2) * model(x)).sum().item())
data = torch.arange(8.0)
scaler = Scaler().fit(data[:, None])
for x, y in DataLoader(TensorDataset(torch.ones(8, 2), data), batch_size=4):
    x = x.to(device)
    y = scaler(y)
    print((model(x) - y.mT).sum().item())
file = io.BytesIO()
torch.save({"mean": torch.zeros(1), "std": torch.ones(1)}, file)
file.seek(0)
scaler.load(torch.load(file, map_location="cpu"))
print(scaler(model(x)).sum().item())
shadow = {name: value.detach().cpu() for name, value in model.named_parameters()}
print(sum((shadow[name] - value).sum().item() for name, value in model.named_parameters()))
"""

HELPERS = """\
import torch
from torch import nn


def smooth(targets, classes):
    soft = torch.full((len(targets), classes), 0.1)
    return soft + 0


class Rates:
    def __init__(self, model):
        self.of = {name: torch.full_like(p, 0.1) for name, p in model.named_parameters()}

    def step(self, params, grads):
        return {name: p - self.of[name] * grads[name] for name, p in params.items()}


def main():
    device = torch.device("cuda")
    model = nn.Linear(2, 2)
    rates = Rates(model)
    model = model.to(device)
    labels = torch.zeros(3, dtype=torch.long, device=device)
    print((smooth(labels, 2) * model(torch.ones(3, 2, device=device))).shape)
    params = dict(model.named_parameters())
    print(len(rates.step(params, params)))


main()
"""

EXPERTS = """\
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, devices):
        super().__init__()
        self.router = nn.Linear(4, 2).to(devices[0])
        self.experts = nn.ModuleList(nn.Linear(4, 4).to(device) for device in devices)

    def forward(self, x):
        weight, choice = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().squeeze(1)
            y = expert(x[rows])
            out[rows] = y * weight[rows, None]
        return out


class TwoHot:
    def __init__(self, bins, device):
        self.bins = torch.linspace(-2, 2, bins)

    def encode(self, x):
        upper = torch.bucketize(x.clamp(-1, 1), self.bins)
        return (x - self.bins[upper - 1]) / (self.bins[upper] - self.bins[upper - 1])


torch.manual_seed(0)
devices = [torch.device("cuda:0"), torch.device("cuda:1")]
x = torch.randn(8, 4, device=devices[0])
print(Experts(devices)(x).shape)
print(TwoHot(5, devices[0]).encode(x).shape)
"""

RAGGED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def collate(rows):
    images, targets = zip(*rows)
    return torch.stack(images), list(targets)


def losses(outputs, anchors, targets):
    total = 0.0
    for output, target in zip(outputs, targets):
        best = (anchors - target["boxes"]).abs().argmin(0)
        total = total + (output[:1] - target["labels"][best]).sum()
    return total


class Noisy(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["second"] = torch.ones(p.shape)
            state["second"].mul_(0.9).addcmul_(p.grad, p.grad, value=0.1)
            scale = 0.1 / state["second"].sqrt()
            p.sub_(scale * p.grad)


torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Linear(2, 3).to(device)
anchors = torch.arange(3.0).unsqueeze(1)
optimizer = Noisy(model.parameters())
rows = [(torch.ones(2), {"boxes": torch.ones(1, 2), "labels": torch.ones(3)}) for _ in range(4)]
for images, targets in DataLoader(rows, batch_size=2, collate_fn=collate):
    images = images.to(device)
    targets = [{k: v for k, v in t.items()} for t in targets]
    loss = losses(model(images), anchors.to(device), targets)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
"""

PROGRAMS = {
    "ways": Idioms(
        WAYS,
        {
            '        self.mean = state["mean"]\n': '        self.mean = state["mean"].to(device)\n',
            "torch.from_numpy(np.arange(3))\n": "torch.from_numpy(np.arange(3)).to(self.cfg.device)\n",
            "torch.linspace(0, 1, 2)": "torch.linspace(0, 1, 2, device=self.cfg.device)",
            "classes), 0.1)": "classes), 0.1, device=device)",
            "np.zeros(2, dtype=np.float32)))": "np.zeros(2, dtype=np.float32)).to(device))",
            "torch.ones(n).softmax(0)": "torch.ones(n, device=device).softmax(0)",
            "y.split(n // 2)": "y.to(device).split(n // 2)",
            "(model(a.to(device)) - b)": "(model(a.to(device)) - b.to(device))",
            "wrapped = Adapter(model)": "wrapped = Adapter(model).to(device)",
            "    y = scaler(y)\n": "    y = scaler(y).to(device)\n",
            "value.detach().cpu()": "value.detach().clone()",
        },
    ),
    "helpers": Idioms(
        HELPERS,
        {
            "classes), 0.1)": "classes), 0.1, device=targets.device)",
            "    rates = Rates(model)\n": "",
            "    model = model.to(device)\n": "    model = model.to(device)\n    rates = Rates(model)\n",
        },
    ),
    "ragged": Idioms(
        RAGGED,
        {
            "torch.ones(p.shape)": "torch.ones(p.shape, device=p.grad.device)",
            "{k: v for": "{k: v.to(device) for",
        },
    ),
    "experts": Idioms(
        EXPERTS,
        {
            "expert(x[rows])": "expert(x[rows].to(next(expert.parameters()).device))",
            "= y * weight": "= y.to(x.device) * weight",
            "linspace(-2, 2, bins)": "linspace(-2, 2, bins, device=device)",
        },
    ),
}

IN_PARTS = """\
import torch
from torch.utils.data import DataLoader


def collate(rows):
    return {"x": torch.stack(rows).to(DEVICE), "first": rows[0].to(DEVICE), "y": torch.zeros(len(rows))}


DEVICE = "cuda"
for batch in DataLoader([torch.ones(2)] * 4, batch_size=2, collate_fn=collate):
    print((batch["x"].sum(1) - batch["y"]).sum().item())
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_on_the_way(program, tmp_path, name):
    assert_fixed(program, tmp_path, PROGRAMS[name], devices=2)


def test_parts_on_two_devices_are_no_inconsistent_source(program):
    """Each batch has parts on both; that one line gives both does not mean that it gives now one and then the other."""
    (finding,) = check_source(program, IN_PARTS).errors
    assert finding["reason"] == "batch-not-moved" and finding["culprit"]["name"] == 'batch["y"]'


def test_one_edit_is_one_finding(program):
    """What is read of state that was made without a device is on the CPU, too: another code, the same line to edit."""
    reasons = sorted(finding["reason"] for finding in check_source(program, RAGGED).errors)
    assert reasons == ["batch-not-moved", "optimizer-state"]
