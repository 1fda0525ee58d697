"""locus.place(): everything that is reachable is moved, ties and shared memory are kept."""

import subprocess
import sys

import pytest
from simulated import simulated

GPU = "cuda:0"


def make_model():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(6, 4)
            self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
            self.heads = {"a": (nn.Linear(4, 6, bias=False),)}
            self.heads["a"][0].weight = self.embed.weight
            self.register_buffer("mask", torch.ones(4))
            self.scale = torch.full((4,), 0.5)
            self.rows = torch.arange(24.0).reshape(6, 4)
            self.first = self.rows[0]
            table = torch.ones(4)
            self.bump = lambda x: x + table

        def forward(self, x):
            x = self.embed(x) * self.scale * self.mask + self.first
            for layer in self.layers:
                x = self.bump(layer(x))
            return self.heads["a"][0](x)

    return Net()


@simulated(devices=2)
def test_a_model_its_optimizer_and_its_loss():
    import torch

    import locus

    net = make_model()
    parameters = [*net.parameters(), *(p for layer in net.layers for p in layer.parameters())]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    criterion = torch.nn.CrossEntropyLoss(weight=torch.rand(6))
    ids = torch.tensor([0, 3, 5])
    criterion(net(ids), ids).backward()
    optimizer.step()
    known = {id(p) for p in parameters}

    result = locus.place(net, optimizer, criterion, GPU)
    assert all(a is b for a, b in zip(result, (net, optimizer, criterion))), "it returns what it was given"
    devices = locus.where([net, optimizer, criterion], show=False).devices
    assert set(devices) == {GPU, "cpu"} and devices["cpu"] == 5, "the counts of steps stay"
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == known
    assert net.heads["a"][0].weight is net.embed.weight
    net.rows[0] = 7.0
    assert net.first.tolist() == [7.0] * 4 and net.first.data_ptr() == net.rows.data_ptr()

    ids = locus.place(ids, GPU)
    optimizer.zero_grad()
    criterion(net(ids), ids).backward()
    optimizer.step()
    assert all(p.grad.device.type == "cuda" for p in parameters)


@simulated(devices=2)
def test_nested_batches():
    import collections
    import dataclasses

    import torch

    import locus

    Pair = collections.namedtuple("Pair", "x y")

    @dataclasses.dataclass
    class Sample:
        image: torch.Tensor
        name: str = "s"

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        image: torch.Tensor

    class Slotted:
        __slots__ = ("x",)

    slotted = Slotted()
    slotted.x = torch.ones(1)
    shared = torch.ones(3)
    batch = {
        "pair": Pair(shared, [torch.zeros(2), (1, torch.zeros(1))]),
        "samples": [Sample(torch.ones(2)), Frozen(shared)],
        "slots": slotted,
        "set": {torch.ones(1)},
        "queue": collections.deque([torch.ones(1)], maxlen=2),
        "packed": torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1), torch.ones(1, 1)]),
        "best": torch.max(torch.ones(2, 2), dim=0),
        "text": "no tensor",
    }
    text = batch["text"]
    assert locus.place(batch, device="cuda:1") is batch
    devices = locus.where(batch, show=False).devices
    assert devices["cuda:1"] >= 9 and devices.get("cpu", 0) <= 1, "the sizes of a packed sequence stay"
    assert batch["packed"].data.device.index == 1 and batch["packed"].batch_sizes.device.type == "cpu"
    assert isinstance(batch["pair"], Pair) and type(batch["best"]) is type(torch.max(torch.ones(1, 1), dim=0))
    assert batch["best"].values.device.index == 1 and next(iter(batch["set"])).device.index == 1
    assert batch["pair"].x is batch["samples"][1].image and shared.device.type == "cpu"
    assert batch["text"] is text and batch["slots"].x.device.index == 1 and batch["queue"].maxlen == 2


@simulated(devices=1)
def test_what_shares_memory_still_does():
    import torch

    import locus

    whole = torch.arange(1000, dtype=torch.int16)
    parts = {"head": whole[10:20], "all": whole[4:400].view(torch.uint8), "odd": whole[300:310:3]}
    before = {name: part.tolist() for name, part in parts.items()}
    locus.place(parts, GPU)
    assert {name: part.tolist() for name, part in parts.items()} == before
    parts["all"][12] = 77  # the low byte of whole[10]
    assert parts["head"][0].item() == 77
    assert torch.cuda.memory_allocated() <= 1024, "only the part that is used is moved"
    assert whole.device.type == "cpu" and whole[10] == 10

    one = {"part": torch.zeros(1 << 20)[5:9]}
    locus.place(one, GPU)
    assert one["part"].untyped_storage().nbytes() < 1024
    values = {"z": torch.tensor([1 + 2j, 3j]), "t": torch.zeros(2)}
    values["conjugate"] = values["z"].conj()
    locus.place(values, GPU)
    assert values["conjugate"].tolist() == [1 - 2j, -3j]


@simulated(devices=1)
def test_gradients_find_their_way():
    import torch

    import locus

    weight = torch.ones(3, requires_grad=True)
    seen = []
    weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    state = {"weight": weight, "row": weight[1:], "hidden": (weight * 2,), "bare": weight.detach()}
    locus.place(state, GPU)
    assert state["weight"] is weight and weight.is_leaf and weight.device.type == "cuda"
    assert state["row"].device.type == "cuda" and state["row"].data_ptr() == weight[1:].data_ptr()
    assert state["bare"].data_ptr() == weight.data_ptr() and not state["bare"].requires_grad
    state["row"].sum().backward()
    assert seen == ["cuda"] and weight.grad.tolist() == [0, 1, 1] and weight.grad.device.type == "cuda"
    hidden = state["hidden"][0]
    assert hidden.device.type == "cuda" and hidden.grad_fn is not None
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    assert locus.place(frozen, GPU) is frozen and not frozen.requires_grad


@simulated(devices=1)
def test_cycles_and_depth():
    import torch

    import locus

    inner = [torch.ones(1)]
    knot = (inner, {"t": torch.ones(2)})
    inner.append(knot)
    result = locus.place(knot, GPU)
    assert result is knot and knot[1]["t"].device.type == "cuda" and inner[1] is knot
    deep = torch.ones(1)
    for _ in range(50_000):
        deep = (deep,)
    deep = locus.place([deep], GPU)[0]
    depth = 0
    while isinstance(deep, tuple):
        deep, depth = deep[0], depth + 1
    assert depth == 50_000 and deep.device.type == "cuda"
    knot = (inner, (torch.ones(1),))
    inner[1] = knot
    moved = locus.place(knot, GPU)
    assert inner[1] is moved and moved[1][0].device.type == "cuda"


@simulated(devices=1)
def test_it_says_what_it_moved():
    import contextlib
    import io

    import torch

    import locus

    said = io.StringIO()
    net = make_model()
    with contextlib.redirect_stderr(said):
        for _ in range(3):
            locus.place(net, {"seed": torch.Generator()}, GPU)
            net.mask = net.mask.cpu()
    lines = said.getvalue().splitlines()
    assert len(lines) == 1, "once for a line of the program"
    assert lines[0].startswith("locus.place at test_place.py:") and "moved to cuda:0: " in lines[0]
    assert "4 in plain attributes, 4 in plain containers, 1 buffer, 1 parameter" in lines[0]
    assert lines[0].endswith('left dict["seed"]: a generator can\'t be moved: make one with device=')
    report = locus.last_placement()
    assert [m.name for m in report.moved] == ["Net.mask"] and report.stayed == 9
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        locus.place(net, GPU, show=True)
    assert "Net.mask  buffer  cpu -> cuda:0  16 B" in shown.getvalue()
    assert repr(report).startswith("<placement: 1 tensor (16 B) moved to cuda:0: 1 buffer; 9 were there already; left")


@simulated(devices=1)
def test_nothing_is_half_moved():
    import torch

    import locus

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    net.huge = torch.empty(1).expand(1 << 40)
    with pytest.raises(torch.OutOfMemoryError):
        locus.place(net, GPU)
    assert locus.where(net, show=False).devices == {"cpu": 5}


PROGRAM = """\
import sys
import torch, locus
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(2, 2), torch.nn.LSTM(2, 2)]
        self.shift = torch.ones(2)
    def forward(self, x):
        return self.layers[1](self.layers[0](x) + self.shift)[0]
net, x = Net(), torch.ones(3, 2)
if sys.argv[1] == "all":
    net, x = locus.place(net, x, "cuda:1")
else:
    net.to("cuda:1"), locus.place(net.layers, "cuda:1")
net(x).sum().backward()
"""


@pytest.mark.parametrize(("what", "code"), [("all", 0), ("half", 1)])
def test_a_placed_program_has_no_finding(program, tmp_path, what, code):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    result = program.call("locus.commands.cli:main", ["check", str(path), what])
    assert result.code == code, result.describe()


def test_without_a_gpu():
    import torch
    from locus.errors import UsageError

    import locus

    thing = {"x": torch.ones(2)}
    assert locus.place(thing, "cpu") is thing and locus.last_placement().stayed == 1
    for arguments, said in (
        ((), "needs objects and a device"),
        (("cpu",), "nothing to move"),
        ((thing, thing), "needs a device as its last argument, not dict"),
        ((thing, "gpu"), "'gpu'"),
        ((thing, "cuda:77"), "cuda:77"),
        ((thing, True), "not bool"),
    ):
        with pytest.raises(UsageError, match=said):
            locus.place(*arguments)
    assert thing["x"].device.type == "cpu"


def test_it_needs_no_simulation():
    """In a process where nothing is simulated: to meta and back is the only other device there is."""
    code = (
        "import torch, locus\n"
        "net = torch.nn.Linear(2, 2)\n"
        "locus.place(net, 'meta')\n"
        "assert net.weight.is_meta and isinstance(net.weight, torch.nn.Parameter)\n"
        "locus.place(net, 'cpu')\n"
        "assert net.weight.is_meta and 'no data' in str(locus.last_placement())\n"
        "assert 'locus._bridge' not in __import__('sys').modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
