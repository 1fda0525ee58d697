"""Fixtures for tests that run whole programs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from forkrunner import ForkRunner  # noqa: E402


@pytest.fixture(scope="session")
def program():
    """The runner: program.run(path, …), program.run_source(text, …), program.call("module:function", …)."""
    runner = ForkRunner()
    yield runner
    runner.close()
