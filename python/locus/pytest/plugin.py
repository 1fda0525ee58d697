"""The pytest plugin: `pytest --locus` runs a test suite on simulated CUDA devices and fails tests with findings.

Every pytest run of an environment with Locus loads this file. Without --locus it declares its options, its marker and
its fixture, and does nothing else; what it does with --locus is in locus.pytest.checks. Imports no PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import argparse

_FLAGS = {
    "--locus": "run the tests on simulated CUDA devices and check them",
    "--locus-dry": "shapes and places only: no values for large tensors",
}
_OPTIONS = {
    "--locus-devices": ("N", "how many CUDA devices, 1 to 64 (default: 2)"),
    "--locus-memory": ("SIZE", "memory of each device, such as 24GB (default: 80GiB)"),
    "--locus-rng": ("device|cpu", "random numbers: each device its own (the default), or all the CPU's"),
    "--locus-report": ("FILE", "write the findings of all tests there, as JSON"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options."""
    group = parser.getgroup("locus", "device placement, checked on simulated CUDA devices")
    for name, words in _FLAGS.items():
        group.addoption(name, action="store_true", default=False, help=words)
    for name, (metavar, words) in _OPTIONS.items():
        group.addoption(name, metavar=metavar, default=None, help=words)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any file of the suite is imported: `torch.cuda.is_available()` at its top must already see the devices."""
    _begin(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line(
        "markers",
        "locus(policy='collect', ignore=[], devices=0): how --locus treats a test: policy 'raise' lets PyTorch's own "
        "errors through, 'warn' warns, 'move' says nothing; 'ignore' lists codes that are no failure, 'devices' is how "
        "many it needs",
    )
    _begin(config, config.option)  # where the plugin came too late for the hook above


def _begin(config: pytest.Config, options: argparse.Namespace) -> None:
    if config.pluginmanager.has_plugin("locus-checks"):
        return
    if not options.locus:
        if options.locus_dry:
            raise pytest.UsageError("--locus-dry needs --locus.")
        for name in _OPTIONS:
            if getattr(options, name[2:].replace("-", "_")) is not None:
                raise pytest.UsageError(f"{name} needs --locus.")
        return
    from locus.pytest import checks

    config.pluginmanager.register(checks.Checks(config, options), "locus-checks")


@pytest.fixture
def locus_report(request: pytest.FixtureRequest) -> object:
    """What Locus saw in this test so far: findings, transfers, synchronizations. Skips the test without --locus."""
    checks = request.config.pluginmanager.get_plugin("locus-checks")
    if checks is None:
        pytest.skip("needs pytest --locus")
    return checks.report_so_far()
