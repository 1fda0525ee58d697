"""What `pytest --locus` was asked for, on its command line and in the project's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from locus.errors import UsageError
from locus.process import reports, settings, simulation

if TYPE_CHECKING:
    import argparse


def find_settings(config: pytest.Config) -> settings.Settings:
    """The settings of the project; a mistake in them is an error of usage."""
    try:
        return settings.find(config.rootpath)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def machine(options: argparse.Namespace, project: settings.Settings) -> simulation.SimulationOptions:
    """The devices to simulate."""
    given = options.locus_devices
    devices = given if given is not None else 2 if project.devices is None else project.devices
    if not str(devices).isdecimal() or not 1 <= int(devices) <= simulation.MAX_DEVICES:
        where = f"--locus-devices {devices}" if given is not None else f"{project.file}: tool.locus.devices = {devices}"
        raise pytest.UsageError(
            f"{where} is not a number of devices to test on. Use a whole number from 1 to {simulation.MAX_DEVICES}."
        )
    memory = options.locus_memory or project.memory
    try:
        dry = simulation.check_dry(answers=project.dry_answers) if options.locus_dry else None
        rng = options.locus_rng or project.rng or "device"
        return simulation.check_options(int(devices), memory, rng, project.card, dry)
    except UsageError as error:
        raise pytest.UsageError(f"--locus-{error}") from None


def check_report_path(path: str) -> None:
    """Says before any test runs that the report can't be written."""
    try:
        reports.check_writable("--locus-report", path)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
