"""`locus report`: shows a report that was saved as JSON, or that hosts have left in a folder, or turns it into another
form."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from locus.commands.output import show
from locus.errors import LocusError, UsageError
from locus.process import gathering, reports, screen, settings

if TYPE_CHECKING:
    from locus._bridge import Report

SUMMARY = "show a saved JSON report, or turn it into another form"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "report", metavar="REPORT", help="what `locus check --json FILE` wrote, or a --report-dir; -: standard input"
    )
    reports.add_options(parser, "standard output")
    parser.add_argument("--exit-status", action="store_true", help="end with the exit status that the check had")


def execute(arguments: argparse.Namespace) -> int:
    """Converts the report. 0: done, or with --exit-status the check's own; 2: it could not be read or written."""
    outputs, style = reports.outputs(arguments), reports.style_of(arguments)._replace(next=False)
    report = _load(arguments.report)  # what is wrong with it is said once, before any file is written
    problems = reports.write(report, outputs, style)
    if problems:
        raise LocusError(" ".join(problems))
    if not outputs:
        show(reports.render(report, reports.form_of(arguments), style, screen.look(1)))
    return reports.judge(report).exit if arguments.exit_status else 0


def _load(path: str) -> Report:
    if os.path.isdir(path):
        try:
            return gathering.report_of(path, settings.find())
        except OSError as error:
            raise UsageError(f"can't read the folder {path!r}: {error.strerror}. Check its permissions.") from None
        except ValueError as error:
            raise UsageError(f"{path} is not a folder of --report-dir: {error}. Give what hosts wrote into.") from None
    try:
        return reports.load(_read(path))
    except ValueError as error:
        raise UsageError(f"{path} is not a report of Locus: {error}. Give what --json wrote.") from None


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"can't read the report {path!r}: {error.strerror}. Check its name.") from None
