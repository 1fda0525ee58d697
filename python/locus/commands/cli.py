"""The command line: finds the subcommand, and turns Locus's own errors into one line and exit code 2.

What a subcommand does is in locus.commands.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, NoReturn

import locus
from locus.commands import COMMANDS
from locus.commands.output import show
from locus.errors import LocusError, as_line

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


_ALIKE = 0.7  # of two options, for one to be taken for a slip of the other: `jsn` is `json`, `nope` is not `nnodes`


class _Parser(argparse.ArgumentParser):
    """argparse, with errors in Locus's form."""

    def error(self, message: str) -> NoReturn:
        if missing := re.fullmatch(r"argument (\S+): expected one argument", message):
            option = missing[1].rpartition("/")[2]
            # argparse takes what begins with a dash for another option, and says nothing of that.
            dashed = f"; one that begins with a dash is written {option}=VALUE" if option.startswith("--") else ""
            message = f"{option} needs a value{dashed}"
        _complain(LocusError(f"{message}. `{self.prog} --help` shows how."))
        raise SystemExit(2)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if message and file is sys.stdout:
            show(message)
        else:
            super()._print_message(message, file)


def _complain(error: LocusError) -> None:
    print(as_line(error), file=sys.stderr)


def _complain_of(unknown: list[str], command: str | None) -> int:
    """Options that a command has not; with the one that was probably meant."""
    module = importlib.import_module(f"locus.commands.{command}") if command else None
    known: argparse.ArgumentParser = _Parser() if module is not None else _build_parser()
    if module is not None:
        module.configure(known)
    option = unknown[0].partition("=")[0]
    words = {each.lstrip("-"): each for each in known._option_string_actions}  # all are alike in their dashes
    near = difflib.get_close_matches(option.lstrip("-"), words, 1, _ALIKE)
    meant = f" Did you mean {words[near[0]]}?" if near else ""
    name = f"locus {command}" if command else "locus"
    _complain(LocusError(f"unrecognized arguments: {' '.join(unknown)}.{meant} `{name} --help` shows how."))
    return 2


def _unknown_command(words: list[str]) -> str:
    """What was probably meant: another spelling, or a check of that program."""
    word = words[0]
    near = difflib.get_close_matches(word, COMMANDS, 1)
    if near:
        return f"{word} is no command. Did you mean `locus {near[0]}`?"
    if word.endswith((".py", ".ipynb")) or os.path.exists(word):
        return f"{word} is no command. To check that program: `locus check {shlex.join(words)}`"
    return f"{word} is no command. The commands are {', '.join(COMMANDS[:-1])} and {COMMANDS[-1]}."


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="locus", description="Know where every tensor is.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"locus {locus.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name in COMMANDS:
        module = importlib.import_module(f"locus.commands.{name}")
        subparser = subparsers.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY[0].upper() + module.SUMMARY[1:] + ".",
            allow_abbrev=False,
        )
        module.configure(subparser)
        subparser.set_defaults(execute=module.execute)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code (a program that ends itself with SystemExit is let through)."""
    words = sys.argv[1:] if arguments is None else arguments
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        _complain(LocusError(_unknown_command(words)))
        return 2
    parser = _build_parser()
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        return _complain_of(unknown, parsed.command)
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        parsed.build_parser = _build_parser  # for `locus completion`
        status: int = parsed.execute(parsed)
        return status
    except LocusError as error:
        _complain(error)
        return 2
