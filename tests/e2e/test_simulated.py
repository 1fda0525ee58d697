"""The decorator that puts a test into a process of its own."""

import os

import pytest
from simulated import simulated

PARENT = os.getpid()


@simulated(devices=None)
def test_runs_in_another_process():
    assert os.getpid() == PARENT, "the file is loaded again in the child"
    import sys

    assert "torch" in sys.modules


@simulated(devices=None)
@pytest.mark.parametrize("number, word", [(1, "one"), (2, "two")])
def test_takes_parameters(number, word):
    assert {1: "one", 2: "two"}[number] == word


@simulated(devices=None)
def a_test_that_fails():
    left = [1, 2]
    assert left == [1, 3]


def test_a_failure_is_a_failure(program):
    with pytest.raises(pytest.fail.Exception) as caught:
        a_test_that_fails(program)
    assert "assert left == [1, 3]" in str(caught.value) or "[1, 2] == [1, 3]" in str(caught.value)
    assert "forkrunner.py" not in str(caught.value)


@simulated(devices=None, deadline=0.5)
def a_test_that_hangs():
    import time

    time.sleep(30)


def test_a_hang_is_a_failure(program):
    with pytest.raises(pytest.fail.Exception, match="ran past its deadline"):
        a_test_that_hangs(program)
