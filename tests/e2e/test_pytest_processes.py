"""`pytest --locus` and the processes that tests start: their findings fail the right test, and none is lost."""

import re

import pytest


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "tests").mkdir()
    return tmp_path


def run(program, project, *arguments):
    given = ["-p", "no:cacheprovider", "-rA", *arguments]
    return program.call("pytest:main", given, cwd=project, deadline=120)


def outcomes(text):
    return {name: outcome for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR) \S*?(test_\w+)(?= |$)", text, re.M)}


CHILDREN = """
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

WRONG = "import torch; torch.ones(2, device='cuda:1') + torch.ones(2)"


def work(number):
    torch.ones(2) + number
    torch.ones(2, device="cuda:1") + torch.ones(2)
    if number == 9:
        os.kill(os.getpid(), signal.SIGKILL)


def run_child(number):
    child = multiprocessing.get_context("fork").Process(target=work, args=(number,))
    child.start()
    child.join()
    return child.exitcode


def test_child():
    assert run_child(1) == 0


def test_killed_child():
    assert run_child(9) == -signal.SIGKILL


def test_after():
    pass


@pytest.mark.locus(policy="raise")
def test_child_that_raises():
    assert run_child(2) == 1


@pytest.mark.locus(ignore=["LOC004"])
def test_ignored_child():
    assert run_child(3) == 0
"""


def test_findings_of_child_processes(program, project):
    (project / "tests" / "test_gpu.py").write_text(CHILDREN)
    result = run(program, project, "--locus")
    expected = dict.fromkeys(["test_after", "test_child_that_raises", "test_ignored_child"], "PASSED")
    expected |= dict.fromkeys(["test_child", "test_killed_child"], "FAILED")
    assert outcomes(result.stdout) == expected, result.describe()
    assert "error[LOC004]" in result.stdout and "test_gpu.py:17" in result.stdout, result.describe()


LATE = """
import subprocess
import sys

def test_leaves_a_process_behind():
    code = "import os, time; time.sleep(0.1); import torch; torch.ones(2, device='cuda') + torch.ones(2); print('done')"
    test_leaves_a_process_behind.child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)

def test_innocent():
    pass

def teardown_module():
    assert test_leaves_a_process_behind.child.communicate()[0] == b"done\\n"
"""


def test_a_process_that_outlives_its_test(program, project):
    """What it finds is not lost."""
    (project / "tests" / "test_gpu.py").write_text("import torch\n" + LATE)
    result = run(program, project, "--locus")
    assert "PASSED tests/test_gpu.py::test_leaves_a_process_behind" in result.stdout, result.describe()
    assert result.code == 1 and "error[LOC004]" in result.stdout, result.describe()
