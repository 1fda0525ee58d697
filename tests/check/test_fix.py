"""`locus fix` and `check --verify`: edits are tried in one more run, shown as a diff, and written with --apply."""

import json
import os
import stat

import pytest
from checker import IMPATIENT, LOCUS

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = torch.ones(4)  # half of it

    def forward(self, x):
        return self.fc(x) * self.scale
"""
TRAIN = """\
device = torch.device("cuda:0")
torch.manual_seed(0)
net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    x = torch.ones(2, 4)
    loss = net(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done", step)
"""
BROKEN = f"{NET}\n\n{TRAIN}"


def fix(program, path, *options, arguments=(), command="fix", **others):
    return program.run(LOCUS, command, *options, str(path), *arguments, cwd=path.parent, deadline=120, **others)


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BROKEN)
    return path


def test_a_diff_of_verified_edits(program, broken):
    result = fix(program, broken)
    assert result.code == 1, result.describe()
    assert result.stdout == "done 19\n", "the second run is silent"
    assert broken.read_text() == BROKEN and os.listdir(broken.parent) == ["train.py"]
    lines = result.stderr.splitlines()
    assert lines[0].endswith("train.py again with the fixes, at most 16 times (--max-runs)")
    assert lines[1:3] == ["--- a/train.py", "+++ b/train.py"]
    assert '+        self.register_buffer("scale", torch.ones(4), persistent=False)  # half of it' in lines
    assert "-    x = torch.ones(2, 4)" in lines and "+    x = torch.ones(2, 4, device=device)" in lines
    tags = [line.split()[:3] for line in lines if "LOC" in line]
    assert tags == [["verified", "LOC003", "train.py:9"], ["verified", "LOC004", "train.py:20"]], result.stderr
    assert lines[-2] == "locus: 2 findings, 2 fixed by verified edits; 1 more run"
    assert lines[-1] == f"next: locus fix --apply {broken}"


def test_apply(program, broken):
    broken.chmod(0o750)
    result = fix(program, broken, "--apply", "-o", "fix.patch")
    assert result.code == 0, result.describe()
    backup = broken.with_name("train.py.orig")
    assert backup.read_text() == BROKEN and stat.S_IMODE(broken.stat().st_mode) == 0o750
    assert result.stderr.splitlines()[-1] == "locus: wrote train.py; as it was: train.py.orig"
    patch = broken.with_name("fix.patch").read_text()
    assert patch.startswith("--- a/train.py\n") and "locus" not in patch
    assert fix(program, broken, command="check").code == 0
    again = fix(program, broken, "--apply")
    assert again.code == 0 and not broken.with_name("train.py.orig1").exists(), again.describe()


def test_verified_in_the_report(program, broken):
    result = fix(program, broken, "--verify", "--format", "json", "-o", "report.json", command="check")
    assert result.code == 1, result.describe()
    findings = json.loads(broken.with_name("report.json").read_text())["findings"]
    assert [[fix["verified"] for fix in finding["fixes"]] for finding in findings] == [[True], [True]]
    text = fix(program, broken, "--verify", command="check").stderr
    assert text.count("[verified]") == 2 and "[suggested]" not in text
    plain = fix(program, broken, command="check").stderr
    assert plain.count("[suggested]") == 2 and "[verified]" not in plain


@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_the_second_run_of_a_long_program_ends_one_step_after_the_last_finding(program, broken, is_short):
    broken.write_text(BROKEN.replace("    loss =", "    open('steps.log', 'a').write(f'{step} ')\n    loss ="))
    command = [LOCUS] if is_short else [IMPATIENT, 120, 120, 60]
    assert program.run(*command, "fix", str(broken), cwd=broken.parent, deadline=120).code == 1
    first, second = list(range(20)), [0, 1]  # what follows a step is run, too
    second = first if is_short else second
    assert [int(n) for n in broken.with_name("steps.log").read_text().split()] == first + second


@pytest.mark.parametrize(
    ("name", "prefix", "encoding", "newline", "end"),
    [
        ("crlf", "", "utf-8", "\r\n", "\r\n"),
        ("bom", "", "utf-8-sig", "\n", ""),
        ("latin1", "# -*- coding: latin-1 -*-\nname = 'Grün'\n", "latin-1", "\n", "\n"),
        ("tabs", "\n\f\n", "utf-8", "\n", "\n"),
    ],
)
def test_the_file_stays_as_it_is_written(program, tmp_path, name, prefix, encoding, newline, end):
    text = (prefix + BROKEN).rstrip("\n")
    if name == "tabs":
        text = text.replace("    ", "\t")
    raw = (text.replace("\n", newline) + end).encode(encoding)
    path = tmp_path / "train.py"
    path.write_bytes(raw)
    result = fix(program, path, "--apply")
    assert result.code == 0, result.describe()
    new = path.read_bytes()
    expected = raw.replace(b"torch.ones(2, 4)", b"torch.ones(2, 4, device=device)")
    expected = expected.replace(
        b"self.scale = torch.ones(4)", b'self.register_buffer("scale", torch.ones(4), persistent=False)'
    )
    assert new == expected


def test_modules_of_a_package(program, tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text(NET)
    (package / "main.py").write_text(f"import torch\nfrom pkg.net import Net\n\n{TRAIN}")
    result = program.run(LOCUS, "fix", "--apply", "-m", "pkg.main", cwd=tmp_path)
    assert result.code == 0, result.describe()
    assert (
        "register_buffer" in (package / "net.py").read_text() and "device=device" in (package / "main.py").read_text()
    )
    diff = result.stderr.splitlines()
    assert "--- a/pkg/net.py" in diff and "+++ b/pkg/main.py" in diff


def test_a_file_that_changes_meanwhile_is_refused(program, broken):
    broken.write_text(BROKEN + "import time; time.sleep(0.05); open(__file__, 'a').write('# more\\n')\n")
    result = fix(program, broken, "--apply")
    assert result.code == 2 and "has changed since the program ran. Nothing was written" in result.stderr
    assert not broken.with_name("train.py.orig").exists()


def test_what_can_not_be_written(program, broken):
    result = fix(program, broken, "-o", "nowhere/fix.patch")
    assert result.code == 2 and "there is no folder" in result.stderr and result.stdout == ""


def test_nothing_to_fix(program, tmp_path):
    path = tmp_path / "right.py"
    path.write_text("print('fine')\nraise SystemExit(3)\n")
    result = fix(program, path, "--apply")
    assert result.code == 3 and result.stdout == "fine\n"


def test_standard_input_is_read_again(program, broken):
    broken.write_text(BROKEN.replace("range(20)", "range(int(input()))"))
    (broken.parent / "number").write_text("3\n")
    source = f"import os, sys\nos.dup2(os.open({str(broken.parent / 'number')!r}, os.O_RDONLY), 0)\n"
    source += "from locus.commands.cli import main\nfor a in [sys.argv[1:]]:\n    sys.exit(main(a))\n"
    result = program.run_source(source, "fix", str(broken), cwd=broken.parent)
    assert result.code == 1 and "2 fixed by verified edits; 1 more run" in result.stderr, result.describe()


def test_another_edit_where_the_first_breaks_the_program(program, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(
        "import torch\n"
        "x = torch.ones(2, device='cuda:0')\n"
        "y = torch.ones(2)\n"
        "z = x + y\n"
        "assert y.device.type == 'cpu'\n"
    )
    result = fix(program, path)
    assert "+z = x + y.to(x.device)" in result.stderr and "2 more runs" in result.stderr, result.describe()


def test_a_finding_without_an_edit(program, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("import torch\nexec(\"torch.ones(2, device='cuda:0') + torch.ones(2)\")\n")
    result = fix(program, path, "--apply")
    assert result.code == 1 and "there is no edit for it" in result.stderr, result.describe()
    assert os.listdir(tmp_path) == ["odd.py"]


def test_the_elements_of_a_container_are_moved(program, tmp_path):
    """A dict has no .to(); what is put into it has."""
    path = tmp_path / "shadow.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n\n"
        "torch.manual_seed(0)\n"
        "model = nn.Linear(2, 2)\n"
        "shadow = {name: value.clone() for name, value in model.state_dict().items()}\n"
        'model.to("cuda:0")\n'
        "for name, value in model.state_dict().items():\n"
        "    shadow[name].mul_(0.5).add_(value, alpha=0.5)\n"
        "print(sum(value.sum().item() for value in shadow.values()))\n"
    )
    result = fix(program, path, "--apply")
    assert "value.clone().to(" in path.read_text() and result.code == 0, result.describe()
    program.run(path, simulate=1).ok()


def test_results_are_compared_on_the_host(program, tmp_path):
    path = tmp_path / "compare.py"
    path.write_text(
        "import torch\n"
        "expected = torch.ones(3, device='cuda').cpu()\n"
        "result = torch.ones(3, device='cuda')\n"
        "print(torch.equal(result, expected))\n"
    )
    result = fix(program, path, "--apply")
    assert result.code == 0 and "torch.equal(result.cpu(), expected)" in path.read_text(), result.describe()
    program.run(path, simulate=1).ok()


def test_samples_are_gathered_on_the_host(program, tmp_path):
    path = tmp_path / "samples.py"
    path.write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, Dataset\n\n\n"
        "class Samples(Dataset):\n"
        "    kept = {1: torch.ones(2, device='cuda')}\n\n"
        "    def __len__(self):\n        return 2\n\n"
        "    def __getitem__(self, index):\n"
        "        if index in self.kept:\n            return self.kept[index]\n"
        "        return torch.zeros(2)\n\n\n"
        "print([batch.tolist() for batch in DataLoader(Samples(), batch_size=2)])\n"
    )
    result = fix(program, path, "--apply")
    assert result.code == 0 and "return self.kept[index].cpu()" in path.read_text(), result.describe()
    assert program.run(path, simulate=1).ok().stdout == "[[[0.0, 0.0], [1.0, 1.0]]]\n"
