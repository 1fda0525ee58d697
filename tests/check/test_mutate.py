"""The mutator: one edit each, everything else kept to the character."""

import json
import subprocess
import sys

import pytest
from corpus import PROGRAMS
from score import HERE, mutate, origins

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("pe", torch.zeros(1, 4), persistent=False)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.heads = nn.ModuleDict(dict(a=nn.Linear(4, 1)))
        self.more = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

net = Net()
net.to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(3, 4)  # Ωmega
x = x.to(device)
y = (x + 1).to(torch.float32).cuda()
state = torch.load(
    path,
    map_location=device,
)
z = torch.zeros(3, device=x.device, dtype=torch.long)
w = torch.zeros_like(x)
v = x.new_full((3,), 2.0)
g = torch.Generator(device="cuda")
print(f"{x.to(device)}")
"""


def made(kind):
    return [(m.line, m.new.strip()) for m, _ in mutate.mutants(SOURCE) if m.kind == kind]


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("buffer-to-attribute", [(8, "self.pe = torch.zeros(1, 4)")]),
        (
            "container-to-plain",
            [
                (9, "self.layers = [nn.Linear(4, 4) for _ in range(2)]"),
                (10, "self.heads = dict(dict(a=nn.Linear(4, 1)))"),
                (11, "self.more = list(nn.Linear(4, 4) for _ in range(2))"),
            ],
        ),
        ("drop-to", [(14, "net"), (17, "x = x")]),
        ("drop-cuda", [(18, "y = (x + 1).to(torch.float32)")]),
        ("drop-result", [(17, "x.to(device)")]),
        ("drop-device", [(23, "z = torch.zeros(3, dtype=torch.long)"), (26, "g = torch.Generator()")]),
        ("pin-device", [(23, 'z = torch.zeros(3, device="cuda:0", dtype=torch.long)')]),
        ("like-to-factory", [(24, "w = torch.zeros(x.shape, dtype=x.dtype)"), (25, "v = torch.full((3,), 2.0)")]),
        ("drop-map-location", [(20, "path,")]),
        ("optimizer-before-move", [(15, "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nnet.to(device)")]),
    ],
)
def test_kind(kind, expected):
    assert made(kind) == expected


def test_only_the_edit_differs():
    for mutant, text in mutate.mutants(SOURCE):
        assert SOURCE.replace(mutant.old, mutant.new, 1) == text, mutant


@pytest.mark.parametrize("path", origins(), ids=lambda p: p.stem)
def test_every_mutant_compiles(path):
    source = path.read_text()
    lines = source.count("\n")
    for mutant, text in mutate.mutants(source, str(path)):
        compile(text, str(path), "exec")
        assert text != source and mutant.line in mutant.accepted_lines and mutant.expected
        assert 1 <= mutant.line <= lines


def test_command_line(tmp_path):
    program = PROGRAMS / "correct" / "made_like_another.py"
    command = [sys.executable, str(HERE / "mutate.py"), str(program)]
    rows = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    mutants = [json.loads(row) for row in rows]
    assert len(mutants) > 3 and all((tmp_path / "out" / m["path"].split("/")[-1]).exists() for m in mutants)
    listed = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert "like-to-factory" in listed and not (tmp_path / "mutants").exists()
    missing = subprocess.run([sys.executable, str(HERE / "mutate.py"), "nowhere.py"], capture_output=True, text=True)
    assert missing.returncode == 2 and "nowhere.py" in missing.stderr and "Traceback" not in missing.stderr
