"""Fixtures for tests that run whole programs, or test functions in a process of their own."""

import sys
from pathlib import Path

import pytest

# The runner is a script and a module: the server starts it by its path.
sys.path.insert(0, str(Path(__file__).parent / "e2e"))

from forkrunner import ForkRunner


@pytest.fixture(scope="session")
def program():
    """The runner: program.run(path, …), program.run_source(text, …), program.call("module:function", …)."""
    runner = ForkRunner()
    yield runner
    runner.close()
