"""The forms of a report and the files it goes into: which were asked for, whether they can be written, writing them.

The report itself, and its forms, are on the C++ side (locus/bridge/report.cc).
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from locus._load import load_bridge
from locus.errors import UsageError

if TYPE_CHECKING:
    from locus._bridge import Report

FORMS = ("text", "json", "html", "sarif")
"""What --format takes."""
SIDE_FORMS = FORMS[1:]
"""Those with an option of their own, such as --json FILE, for a file next to the report."""


class Output(NamedTuple):
    """A file that a report is to be written into."""

    option: str
    form: str
    path: str


def add_options(parser: argparse.ArgumentParser, to: str) -> None:
    """Declares --format, -o and an option for each form; `to` says where the report goes without -o."""
    parser.add_argument("--format", metavar="|".join(FORMS), default="text", help="how to report (default: text)")
    parser.add_argument("-o", dest="output", metavar="FILE", help=f"write the report there instead of {to}")
    for form in SIDE_FORMS:
        parser.add_argument(f"--{form}", metavar="FILE", help=f"also write the report as {form.upper()}, there")


def outputs(arguments: argparse.Namespace) -> list[Output]:
    """The files that were asked for; a UsageError where one can't be written."""
    if arguments.format not in FORMS:
        raise UsageError(f"--format {arguments.format} is not known. Use {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    wanted = [Output("-o", arguments.format, arguments.output)] if arguments.output is not None else []
    for form in SIDE_FORMS:
        path = getattr(arguments, form)
        if path is not None:
            wanted.append(Output(f"--{form}", form, path))
    seen: dict[str, str] = {}
    for output in wanted:
        check_writable(output.option, output.path)
        other = seen.setdefault(os.path.realpath(output.path), output.option)
        if other != output.option:
            raise UsageError(f"{other} and {output.option} both name {output.path}. Give each a file of its own.")
    return wanted


def check_writable(option: str, path: str) -> None:
    """A UsageError, now and not after the run, where a file can't be written."""
    folder = os.path.dirname(os.path.abspath(path))
    if not path:
        raise UsageError(f"{option} needs the name of a file.")
    if os.path.isdir(path):
        raise UsageError(f"{option} {path} is a folder. Give the name of a file in it.")
    if not os.path.isdir(folder):
        raise UsageError(f"{option} {path}: there is no folder {folder}. Make it first, or write elsewhere.")
    is_new = not os.path.exists(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))  # as root, permissions alone say little
        if is_new:
            os.unlink(path)
    except OSError as error:
        raise UsageError(
            f"{option} {path} can't be written: {error.strerror}. Check its permissions, or write elsewhere."
        ) from None


def load(data: bytes) -> Report:
    """A report that was written as JSON; a ValueError says what is wrong with it."""
    return load_bridge().Report.read(data)


def render(
    report: Report, form: str, color: bool = False, width: int = 80, ledger: bool = False, explain: bool = False
) -> bytes:
    """A report in one of its forms, or its findings alone ("findings")."""
    folder = os.getcwd()
    return report.render(form, width, color, ledger, explain, folder, source_root(folder))


def write(report: Report, outputs: list[Output], ledger: bool = False, explain: bool = False) -> list[str]:
    """Writes every file that can be written; says what went wrong with the others."""
    problems = []
    for output in outputs:
        data = render(report, output.form, ledger=ledger, explain=explain)
        try:
            with open(output.path, "wb") as file:
                file.write(data)
        except OSError as error:
            problems.append(f"{output.option} {output.path} could not be written: {error.strerror}.")
    return problems


class Judgment(NamedTuple):
    """What a report comes to; decided in locus/engine/verdict.h."""

    verdict: str
    finished: bool
    exit: int
    """The exit status of the check."""
    words: str


def judge(report: Report, all_fixed: bool = False) -> Judgment:
    """What a report comes to; `all_fixed`: the fixes of all its findings were verified and written."""
    return Judgment(*report.judge(all_fixed))


def read_baseline(path: str) -> Report:
    """An earlier report; a UsageError, now and not after the run, where it is none."""
    way_out = "Make one with: locus check --json FILE …"
    try:
        with open(path, "rb") as file:
            data = file.read()
        json.loads(data)
    except OSError as error:
        raise UsageError(f"--baseline {path} can't be read: {error.strerror}. {way_out}") from None
    except ValueError as error:
        raise UsageError(f"--baseline {path} is not a JSON report: {error}. {way_out}") from None
    try:
        return load(data)
    except ValueError as error:
        raise UsageError(f"--baseline {path} is not a report of Locus: {error}. {way_out}") from None


def source_root(folder: str) -> str:
    """The folder that code hosts count paths from: the repository's, or else `folder` itself."""
    here = folder
    while not os.path.exists(os.path.join(here, ".git")):
        above = os.path.dirname(here)
        if above == here:
            return folder
        here = above
    return here
