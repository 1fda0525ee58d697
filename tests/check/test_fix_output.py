"""`locus fix` keeps an edit only if the program prints with it what it printed while it was checked."""

import os

import pytest
from checker import LOCUS

HEAD = """\
import os, time
import torch

device = torch.device("cuda")
torch.manual_seed(0)
x = torch.ones(4, device=device)
"""


def fix(program, tmp_path, text):
    path = tmp_path / "p.py"
    path.write_text(HEAD + text)
    result = program.run(LOCUS, "fix", "--apply", str(path), cwd=tmp_path, deadline=120)
    runs = int(result.stderr.partition(" more run")[0].split()[-1]) if " more run" in result.stderr else 0
    return result, path.read_text()[len(HEAD) :], runs


PLACED = "y = torch.arange(4)\nprint('there' if y.is_cuda else 'here')\nprint((x + y).sum().item())\n"
FORGOTTEN = "scale = torch.ones(4)\nprint((x * scale).sum().item())\n"


def test_an_edit_that_changes_what_is_printed_is_exchanged(program, tmp_path):
    result, text, runs = fix(program, tmp_path, PLACED)
    assert text == PLACED.replace("(x + y)", "(x + y.to(device))") and result.code == 0, result.describe()
    assert result.stdout == "here\n10.0\n", "the further runs are silent"
    assert runs <= 5, result.describe()


@pytest.mark.parametrize("first", [True, False])
def test_the_edits_beside_it_stay(program, tmp_path, first):
    both = [FORGOTTEN, PLACED] if first else [PLACED, FORGOTTEN]
    result, text, runs = fix(program, tmp_path, "".join(both))
    assert "scale = torch.ones(4, device=device)\n" in text and "(x + y.to(device))" in text, result.describe()
    assert "y = torch.arange(4)\n" in text and result.code == 0, result.describe()
    assert runs <= 8, result.describe()


def test_an_edit_is_refused_where_there_is_no_other(program, tmp_path):
    """A function that prints its own length: whatever is changed in there, it shows. The finding beside it is fixed."""
    total = (
        "import inspect\n"
        "def total(x):\n"
        "    y = torch.arange(4)\n"
        "    return (x + y).sum().item()\n"
        "print(total(x), len(inspect.getsource(total)))\n"
    )
    result, text, runs = fix(program, tmp_path, total + FORGOTTEN)
    assert text == total + FORGOTTEN.replace("ones(4)", "ones(4, device=device)"), result.describe()
    assert result.code == 1 and "2 findings, 1 fixed by verified edits" in result.stderr, result.describe()
    assert "the program prints something else with it\n" in result.stderr and runs < 16, result.describe()


def test_a_draw_that_moves_is_the_same_draw(program, tmp_path):
    text = "print(torch.rand(1, device=device).item())\nnoise = torch.randn(4)\nprint((x + noise).sum().item())\n"
    text += "print(torch.rand(1).item())\n"
    result, fixed, runs = fix(program, tmp_path, text)
    assert fixed == text.replace("randn(4)", "randn(4, device=device)") and result.code == 0, result.describe()
    assert runs == 3, result.describe()


def test_times_cost_no_run(program, tmp_path):
    result, fixed, runs = fix(program, tmp_path, FORGOTTEN + "print('took', time.time(), 'or', f'{time.time()} s')\n")
    assert "device=device" in fixed and runs == 1, result.describe()


def test_lines_that_differ_by_themselves(program, tmp_path):
    result, fixed, runs = fix(program, tmp_path, "print(os.getpid(), time.time_ns())\n" + FORGOTTEN)
    assert "device=device" in fixed and result.code == 0 and runs <= 4, result.describe()


def test_layers_that_get_known_are_trained(program, tmp_path):
    text = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(4, 4) for _ in range(2)]
        self.out = torch.nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = net(x).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""
    result, fixed, runs = fix(program, tmp_path, text)
    assert "self.layers = torch.nn.ModuleList([" in fixed or "self.layers = nn.ModuleList([" in fixed, result.describe()
    assert result.code == 0 and runs <= 3, result.describe()


def test_a_long_output_is_not_compared(program, tmp_path):
    result, fixed, runs = fix(program, tmp_path, "print(os.getpid())\nprint('x' * (5 << 20))\n" + FORGOTTEN)
    assert "device=device" in fixed and runs == 1 and len(result.stdout) > 5 << 20


def test_the_program_that_was_blamed_on_one_card(program, tmp_path):
    """A function that runs on two cards: an edit that names one of them would be wrong for the other."""
    text = """\
from torch import nn
first, second = torch.device("cuda:0"), torch.device("cuda:1")
def drop(x, p=0.1):
    keep = torch.ones(x.shape[0], 1) * (1 - p)
    return x * keep
a, b = nn.Linear(4, 4).to(first), nn.Linear(4, 4).to(second)
h = drop(a(x[None])); kept = h
h = drop(b(h.to(second)))
print((h + kept).sum().item())
"""
    result, fixed, runs = fix(program, tmp_path, text)
    assert "torch.ones(x.shape[0], 1, device=x.device)" in fixed and result.code == 0, result.describe()
    assert runs <= 4, result.describe()
    assert program.run(tmp_path / "p.py", simulate=2).ok().stdout == result.stdout
    assert sorted(os.listdir(tmp_path)) == ["p.py", "p.py.orig"]
