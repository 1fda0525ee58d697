"""Programs that PyTorch stops because of a device, one for each of its ways to say so: what guard() finds in each.

Run on simulated devices by test_guard.py and on a card by tests/gpu/test_guard.py.
"""

import json
import textwrap
from typing import NamedTuple


class Case(NamedTuple):
    body: str
    code: str
    name: str
    """Of the culprit; "" where nothing of it is left when the error is raised."""
    devices: int = 1


CASES = {
    "addition": Case("h = torch.randn(2, 3, device=dev)\nh + torch.arange(3)", "LOC004", "torch.arange(3)"),
    "both new": Case("torch.ones(3, device=dev) + torch.ones(3)", "LOC004", "torch.ones(3)"),
    "linear": Case("m = nn.Linear(3, 3).to(dev)\nx = torch.randn(2, 3)\nm(x)", "LOC004", "x"),
    "convolution": Case("c = nn.Conv2d(1, 1, 1).to(dev)\nimage = torch.ones(1, 1, 2, 2)\nc(image)", "LOC004", "image"),
    "embedding": Case("e = nn.Embedding(5, 4).to(dev)\nids = torch.tensor([1, 2])\ne(ids)", "LOC004", "ids"),
    "list": Case("a, b = torch.ones(2, device=dev), torch.ones(2)\ntorch.cat([a, b])", "LOC004", "b"),
    "in place": Case("total = torch.zeros(3)\ntotal += torch.ones(3, device=dev)", "LOC004", "total"),
    "out": Case("r = torch.empty(())\ntorch.sum(torch.ones(3, device=dev), 0, out=r)", "LOC004", "r"),
    "mask": Case("x, m = torch.ones(3, device=dev), torch.ones(3) > 0\nx.masked_fill(m, 0.0)", "LOC004", "m"),
    "own words": Case("x = torch.ones(4, device=dev)\nq = torch.tensor([0.5])\ntorch.quantile(x, q)", "LOC004", "q"),
    "hidden state": Case(
        "n = nn.LSTM(4, 4).to(dev)\nh = torch.zeros(1, 1, 4)\nn(torch.ones(3, 1, 4, device=dev), (h, h.to(dev)))",
        "LOC004", "h",
    ),
    "rnn input": Case("n = nn.GRU(4, 4).to(dev)\nx = torch.ones(3, 1, 4)\nn(x)", "LOC004", "x"),
    "attention": Case(
        "q, k = torch.ones(1, 1, 2, 4, device=dev), torch.ones(1, 1, 2, 4)\nF.scaled_dot_product_attention(q, k, k)",
        "LOC004", "k",
    ),
    "loss weight": Case(
        "c = nn.CrossEntropyLoss(weight=torch.ones(3))\n"
        "c(torch.randn(2, 3, device=dev), torch.tensor([0, 1], device=dev))", "LOC008", "c.weight",
    ),
    "left buffer": Case(
        "m = nn.BatchNorm1d(3).to(dev)\nm.running_mean = torch.zeros(3)\nm(torch.ones(4, 3, device=dev))",
        "LOC001", "m.running_mean",
    ),
    "index": Case("t = torch.ones(5)\ni = torch.tensor([0], device=dev)\nt[i]", "LOC004", "t"),
    "lengths": Case(
        "x, l = torch.ones(2, 3, 4, device=dev), torch.tensor([3, 2], device=dev)\n"
        "nn.utils.rnn.pack_padded_sequence(x, l, batch_first=True)", "LOC015", "l",
    ),
    "split": Case(
        "x, i = torch.ones(5, device=dev), torch.tensor([1, 2], device=dev)\ntorch.tensor_split(x, i)", "LOC015", "i",
    ),
    "numpy": Case("t = torch.ones(2, device=dev)\nt.numpy()", "LOC017", "t"),
    "asarray": Case("import numpy\nt = torch.ones(2, device=dev)\nnumpy.asarray(t)", "LOC017", "t"),
    "generator": Case("g = torch.Generator()\ntorch.randn(3, device=dev, generator=g)", "LOC016", "g"),
    "other generator": Case("g = torch.Generator(dev)\ntorch.randperm(3, generator=g)", "LOC016", "g"),
    "gradient": Case(
        "y = torch.ones(3, device=dev, requires_grad=True) * 2\ng = torch.ones(3)\ny.backward(g)", "LOC019", "g",
    ),
    "own function": Case(
        "class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return g.cpu() * 2\n"
        "Double.apply(torch.ones(3, device=dev, requires_grad=True)).sum().backward()", "LOC019", "",
    ),
    "hook": Case(
        "y = torch.ones(3, device=dev, requires_grad=True) * 2\ny.register_hook(lambda g: g.cpu())\ny.sum().backward()",
        "LOC019", "",
    ),
    "grad": Case("p = nn.Parameter(torch.ones(3, device=dev))\ng = torch.ones(3)\np.grad = g", "LOC019", "g"),
    **{
        f"optimizer {how}": Case(
            f"m = nn.Linear(3, 3)\no = torch.optim.Adam(m.parameters(), {how})\nm(torch.ones(1, 3)).sum().backward()\n"
            "o.step()\nm.to(dev)\no.zero_grad()\nm(torch.ones(1, 3, device=dev)).sum().backward()\no.step()",
            "LOC009", 'Adam.state[m.weight]["exp_avg"]',
        )
        for how in ("foreach=False", "foreach=True", "fused=True")
    },
    "momentum": Case(
        "m = nn.Linear(3, 3)\no = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, foreach=False)\n"
        "m(torch.ones(1, 3)).sum().backward()\no.step()\nm.to(dev)\no.zero_grad()\n"
        "m(torch.ones(1, 3, device=dev)).sum().backward()\no.step()",
        "LOC009", 'SGD.state[m.weight]["momentum_buffer"]',
    ),
    "checkpoint": Case(
        "import io\ns = io.BytesIO()\ntorch.save(torch.ones(2, device=dev), s)\n"
        "data = s.getvalue().replace(b'cuda:0', b'cuda:9')\ntorch.load(io.BytesIO(data))", "LOC010", "",
    ),
    "pinned": Case("t = torch.ones(2, device=dev)\nt.pin_memory()", "LOC021", "t"),
    "NCCL": Case("start_group()\nt = torch.ones(2)\ntorch.distributed.all_reduce(t)", "LOC028", "t"),
    "device_ids": Case(
        "start_group()\nnn.parallel.DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])", "LOC030", "weight",
    ),
    "scattered": Case(
        "start_group()\nm = nn.Sequential(nn.Linear(2, 2).to(dev), nn.Linear(2, 2))\n"
        "nn.parallel.DistributedDataParallel(m)", "LOC029", "1.weight",
    ),
    "two cards": Case(
        "a, b = torch.ones(3, device='cuda:0'), torch.ones(3, device='cuda:1')\na + b", "LOC011", "b", 2
    ),
    "DataParallel": Case(
        "m = nn.DataParallel(nn.Linear(3, 3), device_ids=[0, 1])\nm(torch.ones(4, 3, device=dev))", "LOC001",
        "m.module.weight", 2,
    ),
    "replica": Case(
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(3, 3)\n"
        "        self.scale = torch.ones(3, device='cuda:0')\n"
        "    def forward(self, x):\n        return self.fc(x) * self.scale\n"
        "m = nn.DataParallel(Net().to(dev), device_ids=[0, 1])\nm(torch.ones(4, 3, device=dev))", "LOC012",
        "Net.scale", 2,
    ),
    "vector": Case(
        "a, b = nn.Linear(2, 2).to('cuda:0'), nn.Linear(2, 2).to('cuda:1')\n"
        "nn.utils.parameters_to_vector([*a.parameters(), *b.parameters()])", "LOC011", "b.weight", 2,
    ),
}  # fmt: skip

_HEAD = """\
import json, pickle, traceback
import torch
import torch.nn.functional as F
from torch import nn
import locus

locus.guard(history={history})
dev = torch.device("cuda:0")


def start_group():
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)


found = {{}}
"""
_EACH = """

def case_{number}():
{body}


try:
    case_{number}()
    found[{name!r}] = ["no error", "", 0, False]
except Exception as error:
    finding = getattr(error, "finding", None)
    if finding is None:
        found[{name!r}] = [f"no finding: {{error}}", "", 0, False]
    else:
        printed = finding.text in "".join(traceback.format_exception(error))
        again = pickle.loads(pickle.dumps(error)).finding.code == finding.code
        inside = {first} <= finding.cause["line"] <= {last}
        found[{name!r}] = [finding.code, finding.culprit.get("name", ""), inside, printed and again]
"""


def program_of(names, history: bool) -> str:
    """One program that meets every case; prints {name: [code, culprit, the line to edit is in it, it is printed]}."""
    text = _HEAD.format(history=history)
    for number, name in enumerate(names):
        first = text.count("\n") + 3
        body = textwrap.indent(CASES[name].body, "    ")
        last = first + body.count("\n") + 1
        text += _EACH.format(number=number, name=name, body=body, first=first, last=last)
    return text + "\nprint(json.dumps(found))\n"


def wrong(stdout: str, names) -> list[str]:
    """What is not as the cases say."""
    found = json.loads(stdout.splitlines()[-1])
    told = []
    for name in names:
        case = CASES[name]
        code, culprit, inside, printed = found[name]
        if (code, culprit) != (case.code, case.name):
            told.append(f"{name}: {code} {culprit!r}, not {case.code} {case.name!r}")
        if not code.startswith("LOC") or not inside or not printed:
            told.append(f"{name}: {found[name]}")
    return told
