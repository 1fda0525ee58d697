"""What has run is known in two ways: Python 3.11's own counts, and sys.monitoring from 3.12 on. Both say the same."""

import importlib.util
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from locus.watch import coverage  # noqa: E402

from locus import _load  # noqa: E402

MODULE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        def inner(y):
            return y.relu()

        return inner(x)

    def never_called(self, x):
        return torch.relu(x)


def used():
    return torch.ones(2)


def unused():
    return [torch.zeros(2) for _ in range(3)]


def generator():
    yield torch.ones(1)


def speaks_of_no_tensor():
    return 3


def twin():
    return torch.ones(1)


unused_twin = twin


def twin():
    return torch.ones(2)
"""

NOT_RUN = ["Net.never_called", "twin", "unused"]


class Monitoring(types.SimpleNamespace):
    """sys.monitoring of Python 3.12, as far as it is used: tells of each function's start, until it need not."""

    def __init__(self, taken=()):
        super().__init__(events=types.SimpleNamespace(PY_START=1), DISABLE=object())
        self.taken = set(taken)
        self.quiet = set()
        self.told = 0

    def get_tool(self, number):
        return "another" if number in self.taken else None

    def use_tool_id(self, number, name):
        assert number not in self.taken
        self.taken.add(number)

    def register_callback(self, number, event, begin):
        self.begin = begin

    def set_events(self, number, events):
        assert events == self.events.PY_START
        sys.setprofile(self.profile)

    def profile(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code not in self.quiet:
            self.told += 1
            if self.begin(code, 0) is self.DISABLE:
                self.quiet.add(code)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A fresh copy of the module: its functions have not run."""
    monkeypatch.setattr(coverage, "MOST", 10**6)  # this process has many tests that have not run, too
    path = tmp_path / "program_of_this_test.py"
    path.write_text(MODULE)
    os.utime(path, (1e9, 1e9))  # a file that is newer than the process may not be what it runs
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)

    def load():
        spec.loader.exec_module(made)
        return made

    yield load
    sys.setprofile(None)


def functions_not_run(looked, load):
    looked.start(None if hasattr(sys, "monitoring") else _load.load_bridge())  # which is not asked from 3.12 on
    module = load()
    for _ in range(3):
        module.Net()(module.used())
    list(module.generator())
    module.unused_twin()
    sys.setprofile(None)
    here = [each for each in looked.not_run() if each["file"] == module.__file__]
    return sorted(each["function"] for each in here)


def test_as_python_tells(module):
    """With what this Python has."""
    looked = coverage.Coverage()
    assert functions_not_run(looked, module) == NOT_RUN
    assert (looked._started is None) == (sys.version_info < (3, 12))
    if looked._tool >= 0:
        sys.monitoring.set_events(looked._tool, 0)
        sys.monitoring.free_tool_id(looked._tool)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python has sys.monitoring itself: see the test above")
def test_by_monitoring(module, monkeypatch):
    made = Monitoring(taken={4})
    monkeypatch.setattr(sys, "monitoring", made, raising=False)
    looked = coverage.Coverage()
    assert functions_not_run(looked, module) == NOT_RUN
    assert looked._tool == 3 and made.told == len(made.quiet), "each function is told of once"


def test_by_monitoring_that_others_use(module, monkeypatch):
    """Where all places are taken nothing is known, and nothing is claimed."""
    monkeypatch.setattr(sys, "monitoring", Monitoring(taken={3, 4, 5}), raising=False)
    looked = coverage.Coverage()
    assert functions_not_run(looked, module) == []


def test_a_child_that_has_not_spoken(module, tmp_path):
    """It may have run anything."""
    looked = coverage.Coverage()
    looked.count_fork()
    looked.take_in(str(tmp_path))
    assert functions_not_run(looked, module) == []
    looked.leave_word(str(tmp_path))
    first = coverage.Coverage()
    first.count_fork()
    (tmp_path / "1.ran").write_text('{"forks": 0, "ran": []}')
    first.take_in(str(tmp_path))
    assert first._is_complete, "two words, and one more fork of the child's own"


def test_scripts_run_unseen(tmp_path):
    """Python does not run what TorchScript does: of a file that has scripts nothing is claimed."""
    path = tmp_path / "scripted.py"
    path.write_text("import torch\n\n\n@torch.jit.script\ndef smooth(x):\n    return torch.ones(3) * x\n")
    assert coverage.functions_with_tensors(str(path)) == {}
    path.write_text(path.read_text().replace("@torch.jit.script\n", ""))
    os.utime(path, (1, 1))
    assert [name for _, name in coverage.functions_with_tensors(str(path))] == ["smooth"]
