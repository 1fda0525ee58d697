"""What lets an existing project adopt a checker: settings, comments, baselines, codes, and what was not run."""

import json
from pathlib import Path

import pytest

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.scale = torch.ones(2){comment}

    def forward(self, x):
        self.touch()
        return self.fc(x) * self.scale

    def touch(self):
        self.fc.weight.data.zero_()

    @torch.no_grad()
    def sample(self, x):
        return self.fc(x).argmax()

    def name(self):
        return "net"
"""

TRAIN = """
import torch
from net import Net

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def evaluate():
    return net(torch.ones(1, 4).cuda()).sum().item()


for step in range(3):
    net(torch.ones(1, 4).cuda()).sum().backward()
    optimizer.step()
print("done")
"""


@pytest.fixture
def project(tmp_path):
    write(tmp_path)
    return tmp_path


def write(folder, comment="", train=TRAIN, model=MODEL, toml=None):
    (folder / "net.py").write_text(model.replace("{comment}", comment))
    (folder / "train.py").write_text(train)
    if toml is not None:
        (folder / "pyproject.toml").write_text(toml)


def check(program, project, *options):
    result = program.run(LOCUS, "check", "--json", "report.json", *options, "train.py", cwd=project, deadline=60)
    path = project / "report.json"
    return result, json.loads(path.read_text()) if path.exists() else None


def states(path):
    """(code, state, fingerprint) of the results of a SARIF file."""
    results = json.loads(path.read_text())["runs"][0]["results"]
    return [(r["ruleId"], r.get("baselineState"), r["partialFingerprints"]["locusFinding/v1"]) for r in results]


def test_a_comment_at_the_cause(program, project):
    write(project, comment="  # locus: ignore[LOC003] moved by hand later")
    result, report = check(program, project, "--sarif", "report.sarif")
    [shown] = json.loads((project / "report.sarif").read_text())["runs"][0]["results"]
    assert shown["suppressions"][0]["kind"] == "inSource", shown
    assert "moved by hand later" in shown["suppressions"][0]["justification"]
    assert result.code == 0 and "1 ignored" in result.stderr, result.describe()
    assert report["findings"] == [] and report["ignored"][0]["code"] == "LOC003"
    assert report["ignored"][0]["by"].endswith("net.py:10: moved by hand later")


def test_comments_that_do_not_count(program, project):
    write(project, comment="; s = '# locus: ignore[LOC003]'")
    assert check(program, project)[0].code == 1
    write(project, comment="  # locus: ignore[LOC004]")
    assert check(program, project)[0].code == 1
    write(project, comment="  # locus: ignore[LOC999]")
    result, report = check(program, project)
    assert result.code == 1 and "LOC999" in result.stderr and "names no code" in " ".join(report["notes"])
    write(project, comment="  # locus: ignore")
    result, report = check(program, project)
    assert result.code == 1 and "needs its codes" in " ".join(report["notes"])


def test_settings(program, project):
    write(project, toml='[tool.locus]\ndevices = 5\nignore = ["LOC003"]\n')
    result, report = check(program, project)
    assert result.code == 0 and len(report["program"]["devices"]) == 5 and len(report["ignored"]) == 1
    assert check(program, project, "--devices", "3")[1]["program"]["devices"] == ["cuda:0", "cuda:1", "cuda:2"]
    write(project, toml='[tool.locus.per-file-ignores]\n"other.py" = ["LOC003"]\n')
    assert check(program, project)[0].code == 1
    write(project, toml="[tool.locus]\nnonsense = 1\n")
    result = program.run(LOCUS, "check", "train.py", cwd=project)
    assert result.code == 2 and "pyproject.toml: tool.locus.nonsense" in result.stderr and result.stdout == ""


def test_baseline(program, project):
    result, _ = check(program, project)
    assert result.code == 1, result.describe()
    (project / "report.json").rename(project / "before.json")
    # Lines move, nothing else.
    write(project, model=MODEL.replace("import torch\n", "# one\n# two\nimport torch\n"), train="\n\n" + TRAIN)
    result, report = check(program, project, "--baseline", "before.json", "--sarif", "known.sarif")
    assert result.code == 0, result.describe()
    known, before = states(project / "known.sarif"), json.loads((project / "before.json").read_text())
    assert known == [("LOC003", "unchanged", before["findings"][0]["id"])]
    assert "no new findings since before.json (1 known, 0 gone)" in " ".join(result.stderr.split())
    assert "error[" not in result.stderr and len(report["findings"]) == 1 and report["baseline"]["known"] == 1
    # A new mistake, a new transfer and a new synchronization; the old mistake is mended.
    model = MODEL.replace("self.scale = torch.ones(2)", 'self.register_buffer("scale", torch.ones(2))')
    train = TRAIN.replace("    optimizer.step()", "    optimizer.step()\n    (net.scale + torch.ones(2)).sum().item()")
    write(project, model=model, train=train)
    result, report = check(program, project, "--baseline", "before.json", "--sarif", "new.sarif", "--html", "new.html")
    assert result.code == 1, result.describe()
    assert [each[:2] for each in states(project / "new.sarif")] == [("LOC004", "new"), ("LOC003", "absent")]
    assert "1 new finding" in (project / "new.html").read_text()
    assert [f["code"] for f in report["findings"]] == ["LOC004"] and len(report["baseline"]["gone"]) == 1
    assert {change["kind"] for change in report["baseline"]["more"]} >= {"synchronization"}
    for words in ("error[LOC004]", "gone: LOC003", "more than in before.json", "1 new finding"):
        assert words in result.stderr, result.describe()


BEHIND_ANOTHER = """
import torch
w = torch.ones(3, device="cuda")
x = torch.ones(3)
y = x + w
if x.is_cuda:
    z = torch.ones(3) * w
"""


def test_a_baseline_is_compared_after_the_fixes_were_tried(program, tmp_path):
    """What only the run with the fixes has shown is not in the baseline."""
    write(tmp_path, train=BEHIND_ANOTHER)
    _, before = check(program, tmp_path)
    assert len(before["findings"]) == 1
    (tmp_path / "report.json").rename(tmp_path / "before.json")
    result, report = check(program, tmp_path, "--baseline", "before.json", "--verify")
    ids = [finding["id"] for finding in report["findings"]]
    known = [finding["id"] for finding in before["findings"]]
    assert len(ids) == 2 and report["baseline"]["new"] == [each for each in ids if each not in known], report
    assert report["baseline"]["known"] == 1 and result.code == 1, result.describe()


def test_what_the_settings_ignore_spoils_no_fix(program, project):
    write(project, train=TRAIN + "print(torch.ones(3) + torch.ones(3, device='cuda'))\n")
    (project / "pyproject.toml").write_text('[tool.locus]\nignore = ["LOC003"]\n')
    result, report = check(program, project, "--verify")
    assert [each["code"] for each in report["ignored"]] == ["LOC003"], result.describe()
    assert report["findings"] and all(fix["verified"] for each in report["findings"] for fix in each["fixes"])


def test_what_was_not_run(program, project):
    result, report = check(program, project)
    names = {(Path(each["file"]).name, each["function"]) for each in report["not_run"]}
    assert names == {("train.py", "evaluate"), ("net.py", "Net.sample")}, result.describe()
    assert "not run, so not checked: " in result.stderr and "Net.sample (net.py:2" in result.stderr
    write(project, train=TRAIN + "evaluate(), net.sample(torch.ones(1, 4).cuda())\n")
    result, report = check(program, project)
    assert report["not_run"] == [] and "not run" not in result.stderr, result.describe()


def test_modules_that_were_not_imported(program, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "beam.py").write_text("import torch\ndef search(x):\n    return torch.topk(x, 3)\n")
    (package / "words.py").write_text("def count(x):\n    return len(x)\n")
    (tmp_path / "train.py").write_text("import torch, package\nprint(torch.ones(1).cuda().sum().item())\n")
    _, report = check(program, tmp_path)
    assert [(Path(each["file"]).name, each["function"]) for each in report["not_run"]] == [("beam.py", "")]


def test_codes(program):
    listed = program.run(LOCUS, "codes").ok().stdout
    assert len(listed.splitlines()) >= 21 and "LOC003  error    plain-attribute" in listed
    page = program.run(LOCUS, "codes", "loc003").ok().stdout
    assert page.startswith("LOC003: A tensor kept as a plain attribute\n") and "register_buffer" in page
    assert "```" not in page and "<!--" not in page and "\x1b" not in page
    assert program.run(LOCUS, "codes", "plain-attribute").ok().stdout == page
    wrong = program.run(LOCUS, "codes", "LOC999")
    assert wrong.code == 2 and "LOC999 is no code. They go from LOC001 to LOC0" in wrong.stderr
