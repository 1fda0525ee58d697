"""The pytest plugin, on a project outside the tree: what it does to a suite with GPU tests, and that it costs nothing
without --locus. Most runs are forked from a process that has torch; two start fresh, one of them with xdist.
"""

import json
import os
import re
import subprocess
import sys

import pytest

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.scale = torch.ones(2)

    def forward(self, x):
        return self.fc(x) * self.scale
"""

SUITE = """
import unittest

import pytest
import torch

from model import Net

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def run():
    return Net().cuda()(torch.ones(1, 4).cuda())


@needs_gpu
def test_right():
    x = torch.ones(3, device="cuda:1")
    assert (x + 1).sum().item() == 6


@needs_gpu
def test_wrong():
    assert run().shape == (1, 2)


@needs_gpu
def test_wrong_again():
    assert run().shape == (1, 2)


def test_means_to_catch_it():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="cuda") + torch.ones(2)


@pytest.mark.locus(policy="raise")
def test_raises():
    with pytest.raises(RuntimeError):
        run()


@pytest.mark.locus(ignore=["LOC003"])
def test_ignored():
    run()


@pytest.fixture
def misplaced():
    return torch.ones(2, device="cuda") + torch.ones(2)


def test_fixture(misplaced):
    assert misplaced.sum().item() == 4


@pytest.fixture
def leaves_a_mess():
    yield
    torch.ones(2, device="cuda") + torch.ones(2)


def test_teardown(leaves_a_mess):
    pass


@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    run()


@pytest.mark.locus(devices=4)
def test_four():
    pass


def test_report(locus_report):
    torch.ones(3).cuda().sum().item()
    assert locus_report.findings == [] and str(locus_report) == ""
    assert [t["count"] for t in locus_report.transfers] == [1] and len(locus_report.syncs) == 1


def test_fails_and_finds():
    run()
    assert False


class TestUnit(unittest.TestCase):
    def test_unit(self):
        run()
"""

EXPECTED = {
    "test_right": "PASSED",
    "test_wrong": "FAILED",
    "test_wrong_again": "FAILED",
    "test_means_to_catch_it": "PASSED",
    "test_raises": "PASSED",
    "test_ignored": "PASSED",
    "test_fixture": "FAILED",
    "test_teardown": "ERROR",
    "test_known": "XFAIL",
    "test_four": "SKIPPED",
    "test_report": "PASSED",
    "test_fails_and_finds": "FAILED",
    "test_unit": "FAILED",
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_gpu.py").write_text(SUITE)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    return tmp_path


def run(program, project, *arguments, **options):
    given = ["-p", "no:cacheprovider", "-rA", *map(str, arguments)]
    return program.call("pytest:main", given, cwd=project, deadline=120, **options)


def start(project, *arguments, python=(), env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LOCUS_", "PYTEST_"))}
    command = [sys.executable, *python, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *map(str, arguments)]
    return subprocess.run(
        command, cwd=project, env={**clean, **(env or {})}, capture_output=True, text=True, timeout=240
    )


def outcomes(text):
    """By test; a test that passes and fails in its teardown is an ERROR."""
    found = {}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|SKIPPED) \S*?(test_\w+)(?= |$)", text, re.M):
        found[name] = outcome
    for _ in re.findall(r"^SKIPPED \[1\] \S+test_gpu.py:\d+: needs 4 devices", text, re.M):
        found["test_four"] = "SKIPPED"
    return found


def test_a_suite_without_gpus(program, project):
    result = run(program, project, "--locus", "--locus-report", "report.json")
    assert outcomes(result.stdout) == EXPECTED, result.describe()
    assert result.code == 1
    assert result.stdout.count("error[LOC003]: expected all tensors to be on the same device, but mul() got") >= 4
    assert '= fix: model.py:10   self.register_buffer("scale", torch.ones(2)' in result.stdout, result.stdout
    assert re.search(r"^FAILED .*test_wrong - LOC003 Net.scale at model.py:10$", result.stdout, re.M), result.stdout
    assert re.search(r"^FAILED .*test_fixture - LOC004 torch.ones\(2\) at tests/te", result.stdout, re.M), result.stdout
    causes = result.stdout[result.stdout.index("= locus: 6 failures, 1 expected failure, 3 causes =") :]
    assert re.search(r"^5 tests  LOC003  model.py:10  `Net.scale` is a plain attribute of", causes, re.M), causes
    assert re.search(r'^ +fix: self.register_buffer\("scale", torch.ones\(2\)', causes, re.M), causes
    assert "simulated CUDA devices of 80GiB" in result.stdout
    assert "locus: 3 findings in 7 tests" in result.stdout, result.stdout
    report = json.loads((project / "report.json").read_text())
    assert {finding["code"] for finding in report["findings"]} == {"LOC003", "LOC004"}


def test_failures_in_color(program, project):
    painted = run(program, project, "--locus", "--color", "yes", "-k", "test_wrong").stdout
    assert "\x1b[31m\x1b[1merror[LOC003]: " in painted.replace("\x1b[1m\x1b[31m", "\x1b[31m\x1b[1m"), painted
    assert "\x1b" not in run(program, project, "--locus", "--color", "no", "-k", "test_wrong").stdout


def test_errors_without_findings_have_their_causes_too(program, project):
    suite = (
        "import pytest\n\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n):\n    raise ValueError(f'no {n}')\n"
    )
    (project / "tests" / "test_other.py").write_text(suite)
    said = run(program, project, "--locus").stdout
    assert "= locus: 10 failures, 1 expected failure, 4 causes =" in said, said
    assert re.search(r"^4 tests  error   tests/test_other.py:5  ValueError: no N$", said, re.M), said


def test_what_pytest_makes_of_an_assert_is_no_name(program, project):
    text = "import torch\nfrom model import Net\ndef test_it():\n    assert Net().cuda()(torch.ones(1, 4).cuda()).shape"
    (project / "test_shape.py").write_text(text)
    result = run(program, project, "--locus", "test_shape.py")
    assert "`Net.scale` is a plain attribute" in result.stdout and "@py" not in result.stdout, result.describe()


def test_collecting_says_nothing_of_findings(program, project):
    assert "locus: n" not in run(program, project, "--locus", "--co").stdout


def test_settings_and_comments(program, project):
    (project / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\npythonpath = ["."]\n[tool.locus]\ndevices = 4\nignore = ["LOC003"]\n'
    )
    test = project / "tests" / "test_gpu.py"
    test.write_text(test.read_text().replace("+ torch.ones(2)", "+ torch.ones(2)  # locus: ignore[LOC004] on purpose"))
    result = run(program, project, "--locus", "--deselect", "tests/test_gpu.py::test_fails_and_finds")
    changed = dict.fromkeys(["test_wrong", "test_wrong_again", "test_fixture", "test_unit", "test_four"], "PASSED")
    changed |= {"test_teardown": "PASSED", "test_known": "FAILED"}  # strict: it does not fail any more
    expected = {k: v for k, v in {**EXPECTED, **changed}.items() if k != "test_fails_and_finds"}
    assert outcomes(result.stdout) == expected, result.describe()


def test_a_mistake_at_the_top_of_a_test_file(program, project):
    (project / "tests" / "test_gpu.py").write_text(
        "import torch\nTABLE = torch.ones(2, device='cuda') + torch.ones(2)\ndef test_it():\n    pass\n"
    )
    result = run(program, project, "--locus")
    assert result.code == 2 and "error[LOC004]" in result.stdout and "ERROR tests/test_gpu.py" in result.stdout


CONFTEST = """
import pytest
import torch

from model import Net


@pytest.fixture(scope="session", params=["cuda:0", "cuda:1"])
def device(request):
    return torch.device(request.param)


@pytest.fixture(scope="session")
def model(device):
    return Net().to(device)


@pytest.fixture(scope="class")
def table(request):
    request.cls.table = torch.ones(2, device="cuda") + torch.ones(2)
"""

SCOPES = """
import unittest
import warnings

import pytest
import torch
from torch.utils.data import DataLoader, Dataset


def test_model_in_conftest(model, device):
    assert model(torch.ones(1, 4, device=device)).device == device


def test_right_on_each_device(device):
    assert (torch.ones(3, device=device) * 2).sum().item() == 6


@pytest.mark.usefixtures("table")
class TestTable:
    def test_first(self):
        assert self.table.sum().item() == 4

    def test_second(self):
        assert self.table.sum().item() == 4


class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = torch.ones(2, device="cuda")

    def test_case_right(self):
        self.assertEqual((self.x * 2).sum().item(), 4)

    def test_case_wrong(self):
        with self.subTest("a part"):
            self.x + torch.ones(2)

    def test_case_raises(self):
        with self.assertRaises(RuntimeError):
            self.x + torch.ones(2)


def twice(times=1):
    for _ in range(times):
        torch.ones(2, device="cuda") + torch.ones(2)


@pytest.mark.locus(policy="warn")
@pytest.mark.parametrize("times", [1, 2])
def test_warned(times):
    with pytest.warns(UserWarning, match="LOC004"):
        twice(times)


@pytest.mark.locus(policy="move")
def test_moved(locus_report):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twice()
    assert not locus_report.findings


class Samples(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        # In a worker: no CUDA after a fork. Under collect it is a finding, LOC018.
        return torch.zeros(1) + index


def test_workers():
    assert sum(float(batch) for batch in DataLoader(Samples(), num_workers=1)) == 1
"""

SCOPES_EXPECTED = {
    "test_model_in_conftest[cuda:0]": "FAILED",
    "test_model_in_conftest[cuda:1]": "FAILED",
    "test_right_on_each_device[cuda:0]": "PASSED",
    "test_right_on_each_device[cuda:1]": "PASSED",
    "test_first": "FAILED",
    "test_second": "PASSED",
    "test_case_right": "PASSED",
    "test_case_wrong": "FAILED",
    "test_case_raises": "PASSED",
    "test_warned[1]": "PASSED",
    "test_warned[2]": "PASSED",
    "test_moved": "PASSED",
    "test_workers": "PASSED",
}


def test_the_right_test_fails(program, project):
    (project / "conftest.py").write_text(CONFTEST)
    (project / "tests" / "test_gpu.py").write_text(SCOPES)
    result = run(program, project, "--locus")
    found = dict(
        reversed(pair)
        for pair in re.findall(r"^(PASSED|FAILED|ERROR) \S*?::(test_[\w]+(?:\[\S+?\])?)(?= |$)", result.stdout, re.M)
    )
    assert found == SCOPES_EXPECTED, result.describe()
    assert "outside of tests" not in result.stdout and "in no test's report" not in result.stdout


def test_a_mistake_in_conftest(program, project):
    (project / "conftest.py").write_text("import torch\nTABLE = torch.ones(2, device='cuda') + torch.ones(2)\n")
    (project / "tests" / "test_gpu.py").write_text("def test_it():\n    pass\n")
    result = run(program, project, "--locus")
    assert result.code == 4 and "conftest.py:2" in result.stderr, result.describe()
    assert "Expected all tensors to be on the same device" in result.stderr, "pytest catches it: PyTorch's own words"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--locus-devices", "2"], ["--locus-devices needs --locus"]),
        (["--locus", "--locus-devices", "1000"], ["--locus-devices 1000", "64"]),
        (["--locus", "--locus-memory", "12parsecs"], ["12parsecs", "80GiB"]),
        (["--locus", "--locus-report", "."], ["--locus-report .", "folder"]),
    ],
)
def test_bad_options(program, project, arguments, words):
    result = run(program, project, *arguments)
    assert result.code == 4 and all(word in result.stderr for word in words), result.describe()


@pytest.mark.parametrize(
    "marker, words",
    [
        ("policy='dice'", ["policy='dice'", "collect"]),
        ("ignore=['LOC999']", ["LOC999", "locus codes"]),
        ("color=3", ["color="]),
        ("devices=-1", ["devices=-1"]),
    ],
)
def test_bad_markers(program, project, marker, words):
    (project / "tests" / "test_gpu.py").write_text(
        f"import pytest\n@pytest.mark.locus({marker})\ndef test_it():\n    pass\n"
    )
    result = run(program, project, "--locus")
    assert result.code == 4 and all(word in result.stderr for word in [*words, "test_it"]), result.describe()


def test_it_costs_nothing_without_the_option(project):
    (project / "tests" / "test_gpu.py").write_text(
        "import sys, pytest\n"
        "def test_no_torch():\n"
        "    assert 'locus.pytest.plugin' in sys.modules and 'torch' not in sys.modules\n"
        "    assert not [m for m in sys.modules if m.startswith('locus.') and not m.startswith('locus.pytest')]\n"
        "def test_report(locus_report):\n    pass\n"
        "@pytest.mark.locus(policy='raise')\ndef test_marker():\n    pass\n"
    )
    result = start(project, "--strict-markers", "-W", "error")
    assert result.returncode == 0, result.stdout
    assert "2 passed, 1 skipped" in result.stdout and "needs pytest --locus" in result.stdout


def test_a_fresh_process_with_xdist(project):
    odd = "import pytest\n@pytest.mark.locus(odd=1)\ndef test_odd():\n    pass\n"
    (project / "tests" / "test_odd.py").write_text(odd)
    result = start(project, "--locus", "-n", "1", "-W", "error::pytest.PytestAssertRewriteWarning")
    assert "test_odd: @pytest.mark.locus: odd= is not known" in result.stdout, result.stdout + result.stderr
    assert outcomes(result.stdout) == EXPECTED | {"test_odd": "ERROR"}, result.stdout + result.stderr
    assert "locus: 3 findings in 7 tests" in result.stdout and "rewritten" not in result.stdout, result.stdout
