"""Memory that runs out, and memory that grows: found, blamed on the line that keeps it, fixed; and no false alarm where
a program catches the error or keeps things on purpose."""

import json
import re

import pytest
from checker import LOCUS, check, is_available, judge
from corpus import fixed, programs, read_mistakes

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")

CARD = ("--memory", "160MiB")
CATEGORIES = {
    "activations", "parameters", "gradients", "optimizer state", "data", "workspaces", "kept by the program",
}  # fmt: skip

WRONG = programs("memory/wrong")
IDLE = programs("memory/idle")
RIGHT = programs("memory/right")


def name(path):
    return path.stem


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_what_keeps_memory_is_blamed(program, path):
    (mistake,) = read_mistakes(path.read_text())
    checked = check(program, path, devices=1, options=CARD)
    assert judge(checked.findings, path, mistake.accepted_lines, mistake.reasons).reason, checked.result.describe()
    (finding,) = checked.findings
    assert finding["culprit"]["name"] in mistake.culprits
    assert checked.result.code == 1
    # The fix is the line of the twin.
    (fix,) = finding["fixes"]
    assert fix["new"].partition("  # ")[0] == fixed(path).read_text().splitlines()[mistake.line - 1], fix


@pytest.mark.parametrize("path", IDLE, ids=name)
def test_what_is_held_and_not_needed_is_let_go(program, tmp_path, path):
    (mistake,) = read_mistakes(path.read_text())
    target, report = tmp_path / path.name, tmp_path / "report.json"
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", *CARD, "--apply", "--json", str(report), str(target), cwd=tmp_path)
    (finding,) = json.loads(report.read_text())["findings"]
    assert (finding["reason"], finding["cause"]["line"]) == ("out-of-memory", mistake.line), result.describe()
    assert [fix["verified"] for fix in finding["fixes"]] == [True], result.describe()
    assert (
        program.run(LOCUS, "run", *CARD, str(target)).ok().stdout
        == program.run(LOCUS, "run", *CARD, str(fixed(path))).ok().stdout
    )


@pytest.mark.parametrize(
    "path", RIGHT + [fixed(path) for path in WRONG + IDLE], ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_what_is_right_gets_no_finding(program, path):
    checked = check(program, path, devices=1, options=CARD)
    assert checked.findings == [], checked.findings
    assert checked.result.code == 0, checked.result.describe()
    assert checked.stdout == program.run(LOCUS, "run", *CARD, str(path)).ok().stdout


FULL = """
import torch
from torch import nn

def main():
    model = nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.ones(64, 1024, device="cuda")
    model(x).sum().backward()
    optimizer.step()
    large = torch.ones(48 << 20, device="cuda")
    print("made", large.shape)

main()
"""


def test_the_finding_says_what_was_held(program, tmp_path):
    script = tmp_path / "full.py"
    script.write_text(FULL)
    checked = check(program, script, devices=1, options=CARD)
    (finding,) = checked.findings
    assert (finding["code"], finding["reason"]) == ("LOC040", "out-of-memory")
    assert finding["cause"]["line"] == 11 and finding["cause"]["text"].strip().startswith("large =")
    assert "no room for another 192.00 MiB" in finding["message"] and "of 160.00 MiB are free" in finding["message"]
    held = dict(re.findall(r"([a-z ]+) ([\d.]+ [KM]iB)", finding["why"].partition(": ")[2].replace(",", "")))
    held = {key.strip(): value for key, value in held.items()}
    assert held["parameters"] == "4.00 MiB" and held["optimizer state"] == "8.01 MiB", held
    assert held["gradients"] == "4.00 MiB" and held["data"] == "256.00 KiB", held
    assert set(held) <= CATEGORIES
    assert any("taken by line 6, `model = nn.Linear(1024, 1024).cuda()`" in note for note in finding["notes"])
    assert "no placement mistakes" not in checked.result.stdout + checked.result.stderr


RESIDUAL = """
import torch
from torch import nn

layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(12)).cuda()
x = torch.ones(4096, 1024, device="cuda")
for layer in layers:
    x = x + layer(x).relu()
print(x.shape)
"""


def test_a_residual_stream_is_no_sum_that_was_forgotten(program, tmp_path):
    script = tmp_path / "residual.py"
    script.write_text(RESIDUAL)
    (finding,) = check(program, script, devices=1, options=CARD).findings
    assert finding["code"] == "LOC040" and finding["cause"]["line"] == 8
    assert not any("is a sum" in note for note in finding["notes"]), finding["notes"]
    assert any("taken by line 8" in note for note in finding["notes"])


EVALUATION = """
import torch
from torch import nn

def evaluate(model, sizes):
    model.eval()
    right = 0.0
    for size in sizes:
        right += float(model(torch.ones(size, 1024, device="cuda")).argmax(1).float().mean())
    return right

def train(model):
    model(torch.ones(4, 1024, device="cuda")).sum().backward()
    model.zero_grad()
    print(evaluate(model, [512, 1024, 2048]) >= 0)

train(nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(10)]).cuda())
"""


def test_an_evaluation_with_gradients_on(program, tmp_path):
    script = tmp_path / "evaluate.py"
    script.write_text(EVALUATION)
    (finding,) = check(program, script, devices=1, options=CARD).findings
    assert finding["code"] == "LOC040" and finding["cause"]["line"] == 6, finding
    assert finding["notes"][0].startswith("`model` is in eval() and gradients are on")
    result = program.run(LOCUS, "fix", "--devices", "1", *CARD, str(script), deadline=600)
    assert "verified   LOC040" in result.stderr and "+@torch.no_grad()\n def evaluate(" in result.stderr, (
        result.describe()
    )
    # What is returned may be trained on: what is known is said, and nothing is proposed.
    script.write_text(EVALUATION.replace("right += float(model(", "right = right + (model(").replace(">= 0", "> 0"))
    (finding,) = check(program, script, devices=1, options=CARD).findings
    assert finding["cause"]["line"] == 6 and finding["fixes"] == [], finding
    script.write_text(EVALUATION.replace("    model.eval()", "    torch.set_grad_enabled(True); model.eval()"))
    (finding,) = check(program, script, devices=1, options=CARD).findings
    assert finding["cause"]["line"] == 9 and finding["fixes"] == [], finding


def test_a_dry_run_goes_on_behind_the_finding(program, tmp_path):
    script = tmp_path / "full.py"
    script.write_text(FULL)
    checked = check(program, script, devices=1, options=(*CARD, "--dry"))
    (finding,) = checked.findings
    assert finding["code"] == "LOC040" and finding["cause"]["line"] == 11
    assert "the run without values went on" in finding["notes"]
    assert "made" in checked.stdout and checked.result.code == 1
    strict = check(program, script, devices=1, options=(*CARD, "--dry", "--strict-memory"))
    assert [each["code"] for each in strict.findings] == ["LOC040"]
    assert "made" not in strict.stdout and "OutOfMemoryError" in strict.result.stderr


def test_a_dry_run_raises_what_the_program_catches(program):
    path = next(path for path in RIGHT if path.stem == "retry_with_less")
    checked = check(program, path, devices=1, options=(*CARD, "--dry"))
    assert checked.findings == [] and "fits True" in checked.stdout, checked.result.describe()


def test_the_fix_is_verified(program, tmp_path):
    path = next(path for path in WRONG if path.stem == "appended_losses")
    script = tmp_path / path.name
    script.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", *CARD, str(script), deadline=600)
    assert "verified   LOC040" in result.stderr and "+        losses.append(loss.detach())" in result.stderr, (
        result.describe()
    )


CATEGORIZED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Linear(256, 1024), nn.BatchNorm1d(1024)
        self.down = nn.Linear(1024, 256)

    def forward(self, x):
        return self.down(torch.relu(self.norm(self.up(x))))

net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
kept = []
for step in range(6):
    x = torch.randn(256, 256).cuda()
    loss = (net(x) - x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    kept.append(loss.detach() + torch.zeros(1 << 18, device="cuda"))
"""


def test_the_peak_has_lines_and_categories(program, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(CATEGORIZED)
    checked = check(program, script, devices=1, options=("--ledger", "--steps", "7"))
    assert checked.findings == []
    memory = checked.report["memory"]["cuda:0"]
    dry = check(program, script, devices=1, options=("--ledger", "--steps", "7", "--dry")).report["memory"]["cuda:0"]
    assert (dry["peak"], dry["by_category"]) == (memory["peak"], memory["by_category"])
    by_category = {row["category"]: row["bytes"] for row in memory["by_category"]}
    assert sum(by_category.values()) >= 0.99 * memory["peak"], by_category
    assert sum(row["bytes"] for row in memory["by_line"] if row["file"] and row["category"]) >= 0.99 * memory["peak"]
    assert list(by_category.values()) == sorted(by_category.values(), reverse=True)
    size = 4 * (256 * 1024 + 1024 + 2 * 1024 + 1024 * 256 + 256 + 2 * 1024)  # with the two buffers
    assert size <= by_category["parameters"] <= size + 9 * 512
    assert size <= by_category["optimizer state"] // 2 + 4 * 4096
    assert by_category["data"] >= 256 * 256 * 4
    assert by_category["kept by the program"] >= 3 << 20  # those of the steps before the last two
    assert by_category["workspaces"] >= 8 << 20 and by_category["activations"] > 0
    assert set(by_category) <= CATEGORIES
    modules = {row["module"]: row["bytes"] for row in memory["activations_by_module"]}
    assert sum(modules.values()) == by_category["activations"] and modules["Net"] >= 256 * 1024 * 4, modules
    places = [(row["file"], row["line"]) for row in memory["by_line"]]
    assert len(places) == len(set(places))


BACKWARD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(64, 512), nn.Linear(512, 4096)

    def forward(self, x):
        hidden, _ = self.cells(x)
        return self.head(hidden).relu_().mul(2)

net = Net().cuda()
x = torch.randn(100, 64, 64, device="cuda")
for step in range(2):
    net.zero_grad()
    net(x).square().mean().backward()
"""


@pytest.mark.parametrize(
    "cut", [(), ("self.head(hidden).relu_().mul(2)", "hidden"), ("self.cells(x)", "(x.repeat(1, 1, 8), 0)")]
)
def test_what_backward_makes_has_a_line(program, tmp_path, cut):
    """Also the parts of a recurrent network, and gradients of what was written in place."""
    script = tmp_path / "backward.py"
    script.write_text(BACKWARD.replace(*cut) if cut else BACKWARD)
    memory = check(program, script, devices=1, options=("--dry",)).report["memory"]["cuda:0"]
    assert [row for row in memory["by_line"] if not row["line"]] == [], memory["by_line"]
    assert sum(row["bytes"] for row in memory["by_line"]) == memory["peak"]


MODULES = """
import torch
from torch import nn

class Wide(nn.Module):
    def forward(self, x):
        return torch.cat([x] * 8, dim=1).exp()

class Narrow(nn.Module):
    def forward(self, x):
        return x.exp()

x = torch.ones(1024, 1024, device="cuda", requires_grad=True)
kept = Wide()(x), Narrow()(x)
last = torch.ones(1 << 28, device="cuda")
"""


def test_an_error_names_whose_activations_they_are(program, tmp_path):
    script = tmp_path / "modules.py"
    script.write_text(MODULES)
    (finding,) = check(program, script, devices=1, options=CARD).findings
    assert "activations 36.00 MiB (Wide 32.00 MiB, Narrow 4.00 MiB)" in finding["why"]


def test_hooks_on_what_autograd_saves_are_not_called(program, tmp_path):
    """Whether a graph is spent is not asked where the answer would run the program's own code."""
    script = tmp_path / "hooked.py"
    script.write_text(
        WRONG[[path.stem for path in WRONG].index("kept_losses")]
        .read_text()
        .replace(
            "        loss = model(x)",
            "        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: print('unpacked') or t):\n"
            "            model(x).square().mean().backward()\n"
            "        loss = model(x)",
        )
    )
    checked = check(program, script, devices=1, options=CARD)
    assert checked.findings == []
    assert checked.stdout == program.run(LOCUS, "run", *CARD, str(script)).ok().stdout


GOES_ON = """
import torch

def main():
    held = torch.ones(1 << 20, device="cuda")
    large = torch.empty(1 << 30, device="cuda")
    del held, large
    print(torch.cuda.memory_allocated())

main()
"""


def test_a_dry_run_that_goes_on_keeps_nothing_alive(program, tmp_path):
    script = tmp_path / "goes_on.py"
    script.write_text(GOES_ON)
    checked = check(program, script, devices=1, options=(*CARD, "--dry"))
    assert [finding["code"] for finding in checked.findings] == ["LOC040"]
    assert checked.stdout.split() == ["0"], checked.result.describe()


GROWS = """
import collections
import torch
from torch import nn

net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
features, errors, recent, numbers = [], [], collections.deque(maxlen=4), []

def guarded(x):
    hidden = net(x).detach()
    raise ValueError("not today")

for _ in range(20):
    x = torch.ones(512, 256, device="cuda")
    y = net(x)
    loss = y.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    features.append(y.detach())
    recent.append((y * 2).detach())
    numbers.append(loss.detach())
    try:
        guarded(x)
    except ValueError as error:
        errors.append(error)
"""


def test_what_grows_without_graphs_is_told_and_no_finding(program, tmp_path):
    script = tmp_path / "grows.py"
    script.write_text(GROWS)
    checked = check(program, script, devices=1)
    assert checked.findings == [] and checked.result.code == 0, checked.result.describe()
    growing = {row["line"]: row for row in checked.report["memory"]["cuda:0"]["growing"]}
    assert set(growing) == {11, 16}, growing  # neither what is bounded nor numbers
    assert growing[16]["holder"] == "`features`, a list that is added to at line 21"
    assert growing[11]["holder"] == "`errors`, exceptions with the variables of the functions they came through"
    for row in growing.values():
        assert 8 <= row["steps"] <= 20 and row["bytes"] >= 16 * 512 * 256 * 4, row
    told = program.run(LOCUS, "check", "--devices", "1", "--ledger", str(script)).ok()
    text = told.stdout + told.stderr
    assert "memory of cuda:0 that grew with every step" in text
    assert "no placement mistakes" in text
