"""The forms of a report and the files it goes into: which were asked for, whether they can be written, writing them.

The report itself, and its forms, are on the C++ side (locus/bridge/python/report.cc).
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from locus._load import load_bridge
from locus.errors import UsageError
from locus.process import pages, screen

if TYPE_CHECKING:
    from locus._bridge import Report

FORMS = ("text", "concise", "json", "html", "sarif", "github", "gitlab", "markdown")
"""What --format takes."""
SIDE_FORMS = ("json", "html", "sarif", "gitlab", "markdown")
"""Those with an option of their own, such as --json FILE, for a file next to the report."""
_TITLES = {"html": "HTML", "json": "JSON", "sarif": "SARIF", "gitlab": "GitLab Code Quality", "markdown": "Markdown"}
STDOUT = "-"
"""As the name of a file: standard output."""


class Output(NamedTuple):
    """A file that a report is to be written into."""

    option: str
    form: str
    path: str


def add_options(parser: argparse.ArgumentParser, to: str) -> None:
    """Declares --format, -o and an option for each form; `to` says where the report goes without -o."""
    parser.add_argument("--format", metavar="|".join(FORMS), default="text", help="how to report (default: text)")
    parser.add_argument("-o", dest="output", metavar="FILE", help=f"write the report there instead of {to}; -: stdout")
    for form in SIDE_FORMS:
        parser.add_argument(f"--{form}", metavar="FILE", help=f"also write the report as {_TITLES[form]}, there")
    parser.add_argument("--statistics", action="store_true", help="count the findings by code, and show no more")
    parser.add_argument("-q", "--quiet", action="store_true", help="findings only: no notes, no closing line")
    parser.add_argument("-v", "--verbose", action="store_true", help="every finding in full, --explain and --ledger")
    parser.add_argument("--explain", action="store_true", help="say why each line is blamed, and which others could be")
    parser.add_argument("--ledger", action="store_true", help="add transfers, synchronizations and memory by line")


class Style(NamedTuple):
    """How much of a report is shown."""

    ledger: bool = False
    explain: bool = False
    quiet: bool = False
    fold: bool = True
    next: bool = False
    fix: str = ""
    """The command that writes the fixes, for the line that says what is next."""


def style_of(arguments: argparse.Namespace, fix: str = "") -> Style:
    """What the options say. `fix`: the command that writes the fixes; "" where there is none."""
    if arguments.quiet and arguments.verbose:
        raise UsageError("-q and -v contradict each other. Leave one of them out.")
    all_of_it = arguments.verbose
    return Style(
        arguments.ledger or all_of_it, arguments.explain or all_of_it, arguments.quiet, not all_of_it, True, fix
    )


def form_of(arguments: argparse.Namespace) -> str:
    """The form to show: that of --format, unless --statistics counts only."""
    return "statistics" if arguments.statistics and arguments.format == "text" else arguments.format


def outputs(arguments: argparse.Namespace) -> list[Output]:
    """The files that were asked for; a UsageError where one can't be written."""
    if arguments.format not in FORMS:
        raise UsageError(f"--format {arguments.format} is not known. Use {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    wanted = [Output("-o", form_of(arguments), arguments.output)] if arguments.output is not None else []
    for form in SIDE_FORMS:
        path = getattr(arguments, form)
        if path is not None:
            wanted.append(Output(f"--{form}", form, path))
    seen: dict[str, str] = {}
    for output in wanted:
        if output.path != STDOUT:
            check_writable(output.option, output.path)
        other = seen.setdefault(os.path.realpath(output.path), output.option)
        if other != output.option:
            name = "standard output" if output.path == STDOUT else output.path
            raise UsageError(f"{other} and {output.option} both name {name}. Give each a file of its own.")
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


_PLAIN = Style()


def load(data: bytes) -> Report:
    """A report that was written as JSON; a ValueError says what is wrong with it."""
    return load_bridge().Report.read(data)


def render(report: Report, form: str, style: Style = _PLAIN, on: screen.Screen | None = None) -> bytes:
    """A report in one of its forms, counted ("statistics"), or its findings alone ("findings")."""
    folder = os.getcwd()
    options = load_bridge().TextOptions()
    options.ledger, options.explain, options.quiet, options.fold = style.ledger, style.explain, style.quiet, style.fold
    options.next, options.fix, options.directory = style.next, _valid(style.fix), _valid(folder)
    if on is not None:
        options.color, options.width = on.color, on.width
        options.pages = str(pages.FOLDER) if on.links else ""
    return report.render(form, options, source_root(folder))


def _valid(path: str) -> str:
    """Text for the C++ side, which takes UTF-8 only: a path may have bytes that no encoding knows."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def write(report: Report, outputs: list[Output], style: Style = _PLAIN) -> list[str]:
    """Writes every file that can be written; says what went wrong with the others."""
    problems = []
    for output in outputs:
        to_stdout = output.path == STDOUT
        wanted = style if to_stdout else style._replace(quiet=False, next=False)
        data = render(report, output.form, wanted, screen.look(1) if to_stdout else None)
        try:
            if to_stdout:
                show_all(1, data)
                continue
            with open(output.path, "wb") as file:
                file.write(data)
        except OSError as error:
            problems.append(f"{output.option} {output.path} could not be written: {error.strerror}.")
    return problems


def show_all(descriptor: int, data: bytes) -> None:
    """Writes to a descriptor, whatever the program has made of sys.stdout and sys.stderr."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


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
