"""The name, kind and owner of a misplaced tensor, for every way a program can hold one."""

import gc
import os
import sys
import tempfile

from simulated import simulated

sys.path.insert(0, os.path.dirname(__file__))

from case_probe import cases_of, odd_operands
from name_cases import PROGRAMS, START


@simulated(devices=1)
def test_names():
    wrong = {}
    for title, (text, name, kind, expression) in PROGRAMS.items():
        gc.collect()  # what an earlier program left behind has names too
        found = odd_operands(START + text, tempfile.mkdtemp())
        first = [operand for case, operand in found if case is found[0][0]]
        seen = [(o["name"], o["kind"], o["expression"]) for o in first]
        if (name, kind, expression) not in seen:
            wrong[title] = f"{seen}, not {(name, kind, expression)}"
    assert not wrong, "\n".join(f"{title}: {what}" for title, what in wrong.items())


OWNED = """\
class Pos(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.pe = torch.zeros(4)
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x):
        return self.layers[0](x * self.scale + self.pe)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = Pos()

    def forward(self, x):
        return self.pos(x)

def main():
    model = Net()
    model.to(device)  # the move
    model(x)

main()
"""


@simulated(devices=1)
def test_owner():
    found = {operand["name"]: operand["owner"] for _, operand in odd_operands(START + OWNED, tempfile.mkdtemp())}
    owner = found["model.pos.pe"]
    moved = owner.pop("moved_at")
    assert owner == {
        "name": "model", "class": "Pos", "path": "pos", "attribute": "pe", "device": "cuda:0", "moved_to": "cuda:0",
        "container": None,
    }  # fmt: skip
    assert moved["text"].strip() == "model.to(device)  # the move" and moved["function"] == "main"
    assert moved["text"][moved["column"] : moved["end_column"]] == "model.to(device)"
    owner = found["model.pos.layers[0].weight"]
    assert (owner["class"], owner["path"], owner["attribute"], owner["container"]) == ("Pos", "pos", "layers", "list")
    assert owner["device"] == "cuda:0" and owner["moved_to"] == "cuda:0"


@simulated(devices=2)
def test_owner_of_a_part_that_lives_elsewhere():
    text = (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a = nn.Linear(4, 4).to('cuda:0')\n"
        "        self.b = nn.Linear(4, 4, bias=False).to('cuda:1')\n"
        "    def forward(self, x):\n"
        "        return self.b(self.a(x))\n"
        "net = Net()\nnet(x)\n"
    )
    case, _ = odd_operands(START + text, tempfile.mkdtemp())[0]
    weight = next(o for o in case["operands"] if o["name"] == "net.b.weight")
    assert weight["owner"]["moved_to"] == "cuda:1" and weight["owner"]["path"] == "b"


@simulated(devices=1)
def test_owner_of_optimizer_state():
    text = PROGRAMS["optimizer state"][0]
    _, operand = odd_operands(START + text, tempfile.mkdtemp())[0]
    owner = operand["owner"]
    assert owner["name"] == "optimizer" and owner["class"] == "Adam" and owner["device"] == "cuda:0"
    assert owner["moved_at"]["text"] == "net.to(device)" and "Adam(" in owner["built_at"]["text"]


@simulated(devices=1)
def test_places():
    text = (
        "def inner(a, b):\n"
        "    return F.mse_loss(a, b)\n"
        "def outer():\n"
        "    y = torch.ones(2, 4)\n"
        "    return inner(x, y)\n"
        "outer()\n"
    )
    (case,) = cases_of(START + text, tempfile.mkdtemp())
    use = case["use"]
    assert use["function"] == "inner" and use["text"][use["column"] : use["end_column"]] == "F.mse_loss(a, b)"
    assert [place["function"] for place in case["stack"]][:3] == ["inner", "outer", "<module>"]
    assert case["library"]["file"].endswith("functional.py") and case["library"]["function"] == "mse_loss"
    assert case["op"] == "mse_loss" and case["overload"] == "aten::mse_loss" and case["device"] == "cuda:0"
    operand = next(o for o in case["operands"] if o["odd"])
    assert (operand["shape"], operand["dtype"], operand["device"]) == ([2, 4], "float32", "cpu")


@simulated(devices=1)
def test_history():
    text = "y = torch.randn(4) * 2\nz = torch.zeros(4, device=device)\nw = z.cpu()\nx + y\nx + w\n"
    found = [operand["history"] for _, operand in odd_operands(START + text, tempfile.mkdtemp())]
    steps = [
        [(s["action"], s["op"], s["device"], s["explicit"], s["at"]["line"]) for s in history] for history in found
    ]
    assert steps[0] == [("created", "randn", "cpu", False, 6), ("computed", "mul", "cpu", False, 6)]
    assert steps[1] == [("created", "zeros", "cuda:0", True, 7), ("moved", ".cpu()", "cpu", True, 8)]


@simulated(devices=1)
def test_no_tensor_is_kept_alive():
    text = (
        "import gc, weakref\n"
        "seen = []\n"
        "def use(a):\n"
        "    h = torch.ones(4)\n"
        "    seen.append(weakref.ref(h))\n"
        "    a + h\n"
        "    del h\n"
        "    assert seen[0]() is None, 'a snapshot of the frame keeps h'\n"
        "use(x)\n"
    )
    assert cases_of(START + text, tempfile.mkdtemp(), origins=False)


@simulated(devices=1)
def test_the_programs_own_snapshot_is_left_alone():
    text = (
        "def use(a):\n"
        "    h = torch.ones(4)\n"
        "    mine = locals()\n"
        "    a + h\n"
        "    assert 'a' in mine and 'h' in mine\n"
        "use(x)\n"
    )
    assert cases_of(START + text, tempfile.mkdtemp())


def test_a_fault_gives_a_smaller_case():
    from locus.blame import facts

    class Hostile:
        def __getattribute__(self, name):
            raise ValueError("no")

    operand = {"argument": "self", "position": 0, "index": -1, "tensor": Hostile(), "odd": True, "rule": "same"}
    raw = {"kind": "operator", "overload": "aten::add.Tensor", "error": "a\nb", "device": "cuda:0"}
    case = facts.build_case({**raw, "operands": [operand]})
    assert case["op"] == "add" and case["error"] == "a" and len(case["operands"]) == 1
    assert facts.build_case({})["operands"] == []


def test_objects_that_run_code_are_not_run():
    import torch
    from locus.program import names, places

    class Trap:
        @property
        def tensor(self):
            raise AssertionError("a property was run")

        def __getattr__(self, name):
            raise AssertionError("__getattr__ was run")

        def __eq__(self, other):
            raise AssertionError("__eq__ was run")

        __hash__ = None

    trap = Trap()
    trap.__dict__["inside"] = torch.ones(3)
    target = trap.__dict__["inside"]
    match = names.find([target], places.frames_here()).best(0, None)
    assert match.name in ("trap.inside", "target")


def test_no_operator_is_run():
    import torch
    from locus.blame import facts
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    tensors = [net[0].weight, net[0].weight.grad, optimizer.state[net[0].bias]["exp_avg"], torch.ones(2)[1:]]
    operands = [dict(argument="self", position=0, index=-1, tensor=t, odd=True, rule="same") for t in tensors]
    with Count():
        case = facts.build_case({"overload": "aten::add.Tensor", "device": "cuda:0", "operands": operands})
    assert [operand["name"] for operand in case["operands"]][:2] == ["net[0].weight", "net[0].weight.grad"]
    assert case["operands"][2]["name"] == 'Adam.state[net[0].bias]["exp_avg"]'
    assert seen == []
