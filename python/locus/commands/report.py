"""`locus report`: shows a report that was saved as JSON, or turns it into another form."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from locus.commands.output import show
from locus.errors import LocusError, UsageError
from locus.process import reports

SUMMARY = "show a saved JSON report, or turn it into another form"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("report", metavar="REPORT", help="what `locus check --json FILE` wrote; -: standard input")
    reports.add_options(parser, "standard output")
    parser.add_argument("--exit-status", action="store_true", help="end with the exit status that the check had")
    parser.add_argument("--explain", action="store_true", help="say why each line is blamed, and which others could be")
    parser.add_argument("--ledger", action="store_true", help="add transfers, synchronizations and memory by line")


def execute(arguments: argparse.Namespace) -> int:
    """Converts the report. 0: done, or with --exit-status the check's own; 2: it could not be read or written."""
    outputs = reports.outputs(arguments)
    data = _read(arguments.report)
    try:
        report = reports.load(data)  # what is wrong with it is said once, before any file is written
    except ValueError as error:
        raise UsageError(f"{arguments.report} is not a report of Locus: {error}. Give what --json wrote.") from None
    problems = reports.write(report, outputs, arguments.ledger, arguments.explain)
    if problems:
        raise LocusError(" ".join(problems))
    if not outputs:
        terminal = sys.stdout.isatty()
        color = terminal and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size((80, 24)).columns if terminal else 80
        show(reports.render(report, arguments.format, color, width, arguments.ledger, arguments.explain))
    return reports.judge(report).exit if arguments.exit_status else 0


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"can't read the report {path!r}: {error.strerror}. Check its name.") from None
