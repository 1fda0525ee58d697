"""Where tensors come from: what keeps its history, in which threads it is recorded, and that it does not grow."""

from __future__ import annotations

import json

import pytest
from checker import check_source

PREPARED = """\
import copy, json, threading, torch, locus
from torch import nn

def made(t):
    return [(step["action"], step["op"], step["at"]["line"]) for step in locus.history(t, show=False)]

def say(t):
    print(json.dumps(made(t)))

base = torch.randn(4, 3)             # line 10
moved = base.to("cuda:0")            # line 11
"""
MOVED = [["created", "randn", 10], ["moved", '.to("cuda:0")', 11]]

# Programs that say the history of one tensor, and what it is.
KEPT = {
    "a view": ("say(moved[1:].t())", MOVED),
    "in place": ("moved.add_(1).mul_(2); say(moved)", MOVED),
    "written by indices": ("moved[0] = 5; say(moved)", MOVED),
    "detached": ("say(moved.detach())", MOVED),
    "as data": ("say(moved.data)", MOVED),
    "a parameter": ("say(nn.Parameter(moved))", MOVED),
    "set_": ("t = torch.empty(0, device='cuda:0'); t.set_(moved); say(t)", MOVED),
    "assigned data": ("p = nn.Parameter(torch.ones(1, device='cuda:0')); p.data = moved; say(p)", MOVED),
    "a tensor that shares its storage": (
        "t = torch.tensor([], device='cuda:0').set_(moved.untyped_storage(), 0, (2, 2)); say(t)", MOVED,
    ),
    "a module that was moved": (
        "net = nn.Linear(3, 2)\nnet.to('cuda:1')\nsay(net.weight)",
        [["created", "Linear", 12], ["moved", ".to('cuda:1')", 13]],
    ),
    "a module that was moved twice": (
        "net = nn.Linear(3, 2)\nnet.to('cuda:1')\nnet.cpu()\nsay(net.weight)",
        [["created", "Linear", 12], ["moved", ".to('cuda:1')", 13], ["moved", ".cpu()", 14]],
    ),
    "a module that swaps its tensors": (
        "torch.__future__.set_swap_module_params_on_conversion(True)\nnet = nn.Linear(3, 2)\nnet.to('cuda:1')\n"
        "say(net.weight)",
        [["created", "Linear", 13], ["moved", ".to('cuda:1')", 14]],
    ),
    "in a thread": (
        "def work():\n    global t\n    t = torch.ones(2, device='cuda:1')\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join(); say(t)",
        [["created", "ones", 14]],
    ),
    "in a thread of a thread": (
        "def work():\n    global t\n    t = torch.ones(2)\n"
        "def start():\n    inner = threading.Thread(target=work); inner.start(); inner.join()\n"
        "outer = threading.Thread(target=start); outer.start(); outer.join(); say(t)",
        [["created", "ones", 14]],
    ),
    "in a thread of autograd's": (
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a):\n        return a * 1\n"
        "    @staticmethod\n    def backward(ctx, g):\n        global t\n        t = torch.zeros(3, device='cuda:0')\n"
        "        return g\n"
        "F.apply(moved.requires_grad_()).sum().backward()\nsay(t)",
        [["created", "zeros", 19]],
    ),
}  # fmt: skip


def test_what_keeps_its_history(program):
    """Each in a process of its own would take long: they share one, and a file of their own each."""
    text = (
        "import json, os, pathlib, tempfile\nfolder = tempfile.mkdtemp()\n"
        f"for number, text in enumerate({[PREPARED + text for text, _ in KEPT.values()]!r}):\n"
        "    path = pathlib.Path(folder, f'part{number}.py'); path.write_text(text)\n"
        "    exec(compile(text, str(path), 'exec'), {'__name__': f'part{number}'})\n"
    )
    lines = check_source(program, text).stdout.splitlines()
    assert dict(zip(KEPT, map(json.loads, lines))) == {name: steps for name, (_, steps) in KEPT.items()}


def test_copies_and_gradients_have_one_of_their_own(program):
    text = PREPARED + (
        "net = nn.Linear(3, 2).to('cuda:0')\n"
        "copied = copy.deepcopy(net)\n"
        "copied(moved).sum().backward()\n"
        "say(copied.weight)\nsay(copied.weight.grad)\n"
    )
    weight, grad = map(json.loads, check_source(program, text).stdout.splitlines())
    assert ["moved", ".to('cuda:0')", 12] in weight, "what was copied was moved there"
    assert grad and grad[-1][2] in (13, 14), "a gradient is made by the line that calls, or by the forward line"


LOOP = """\
import resource, torch, locus
from torch import nn
from locus._load import load_bridge

net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, foreach=False)
mean = torch.zeros(4)
counts = []
for step in range({steps}):
    x = torch.ones(2, 4, device="cuda") - mean
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in ({first}, {steps} - 1):
        counts.append((load_bridge().op_counts(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
(before, small), (after, large) = counts
assert before == after, (before, after)
print(large - small)
"""


@pytest.mark.parametrize(
    "steps, first", [(1_500, 500), pytest.param(100_000, 2_000, marks=pytest.mark.slow)], ids=["1500", "100000"]
)
def test_memory_does_not_grow_with_steps(program, steps, first):
    """Nothing is remembered of a step that the ones before it did not have; the peak moves by allocator noise only."""
    checked = check_source(program, LOOP.format(steps=steps, first=first))
    assert checked.result.code == 1, checked.result.describe()
    assert int(checked.stdout) < 4096, "KiB"
    (finding,) = checked.findings
    assert finding["count"] == steps


def test_explaining_keeps_no_module_alive(program):
    """Not even until the next collection: the program has given that memory back."""
    text = (
        "import gc, weakref, torch\n"
        "from torch import nn\n"
        "gc.collect(), gc.disable()\n"
        "x = torch.ones(2, 3, device='cuda:0')\n"
        "def use():\n"
        "    first, second = nn.Linear(3, 3).to('cuda:0'), nn.Linear(3, 3).to('cuda:1')\n"
        "    seen = weakref.ref(second)\n"
        "    second(first(x))\n"
        "    return seen\n"
        "print(use()())\n"
    )
    checked = check_source(program, text)
    assert checked.findings and checked.stdout == "None\n", checked.result.describe()
