"""`locus completion`: what a shell needs to complete the command line. Made by the package shtab."""

from __future__ import annotations

import argparse
import importlib.util
from types import ModuleType

from locus.commands.output import show
from locus.errors import UsageError
from locus.process import pages

SHELLS = ("bash", "zsh", "fish")

_FILES = ("FILE", "SCRIPT", "REPORT")
"""What arguments are called in the help that take the name of a file."""

SUMMARY = "print what bash, zsh or fish needs to complete `locus`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = f"locus completion {'|'.join(SHELLS)}"
    parser.add_argument("shell", metavar="|".join(SHELLS), nargs="?", help="the shell")
    parser.epilog = (
        'bash: eval "$(locus completion bash)" in ~/.bashrc; zsh: locus completion zsh > a file _locus on $fpath; '
        "fish: locus completion fish > ~/.config/fish/completions/locus.fish"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    if arguments.shell not in SHELLS:
        missing = "a shell is missing" if arguments.shell is None else f"{arguments.shell} is not known"
        raise UsageError(f"{missing}. Use {', '.join(SHELLS[:-1])} or {SHELLS[-1]}.")
    if importlib.util.find_spec("shtab") is None:
        raise UsageError("completion needs the package shtab. Install it: pip install shtab")
    try:
        import shtab
    except ImportError as error:
        raise UsageError(f"the package shtab can't be imported: {error}. Install it again: pip install shtab") from None
    parser: argparse.ArgumentParser = arguments.build_parser()
    _name_values(parser, shtab)
    show(shtab.complete(parser, shell=arguments.shell) + "\n")
    return 0


def _name_values(parser: argparse.ArgumentParser, shtab: ModuleType) -> None:
    """Tells shtab what an argument takes: files, folders, codes, or the values of options such as `--format text|json`,
    which are refused in words of their own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _name_values(each, shtab)
        elif action.choices is not None or not isinstance(action.metavar, str):
            continue
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # what shtab looks for
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.dest == "codes":
            action.choices = list(pages.codes())
        elif "|" in action.metavar:
            action.choices = [value for value in action.metavar.split("|") if value.isalnum()]
