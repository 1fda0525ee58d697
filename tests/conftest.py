"""Fixtures for tests that run whole programs, or test functions in a process of their own; the slow runs; the table
of measured conformance that closes a run."""

import os
import signal
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


@pytest.fixture(autouse=True)
def _environment():
    """What a test leaves in the environment is gone with it: which one comes next is up to the workers."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def pytest_configure(config):
    # A shell without job control starts what it puts in the background deaf to Ctrl-C, and children inherit that:
    # programs of tests that are about Ctrl-C would never hear it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "slow: minutes rather than seconds; run with -m slow, or TEST_ALL=1 in the environment"
    )


def pytest_collection_modifyitems(config, items):
    if "slow" in (config.option.markexpr or "") or os.environ.get("TEST_ALL"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow; run with -m slow"))


def pytest_terminal_summary(terminalreporter):
    """What the tests recorded as "conformance", one line each: name, then figures."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    rows = [
        value for report in reports for name, value in getattr(report, "user_properties", []) if name == "conformance"
    ]
    if not rows:
        return
    terminalreporter.section("conformance")
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    for name, *figures in rows:
        terminalreporter.line("  ".join([name.ljust(widths[0]), *(f.rjust(w) for f, w in zip(figures, widths[1:]))]))
