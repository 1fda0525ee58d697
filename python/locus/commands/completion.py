"""`locus completion`: what a shell needs to complete the command line. Made by the package shtab."""

from __future__ import annotations

import argparse
import importlib.util

from locus.commands.output import show
from locus.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

SUMMARY = "print what bash, zsh or fish needs to complete `locus`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("shell", metavar="|".join(SHELLS), help="the shell")
    parser.epilog = (
        'bash: eval "$(locus completion bash)" in ~/.bashrc; zsh: locus completion zsh > a file _locus on $fpath; '
        "fish: locus completion fish > ~/.config/fish/completions/locus.fish"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    if arguments.shell not in SHELLS:
        raise UsageError(f"{arguments.shell} is not known. Use {', '.join(SHELLS[:-1])} or {SHELLS[-1]}.")
    if importlib.util.find_spec("shtab") is None:
        raise UsageError("completion needs the package shtab. Install it: pip install shtab")
    try:
        import shtab
    except ImportError as error:
        raise UsageError(f"the package shtab can't be imported: {error}. Install it again: pip install shtab") from None
    parser: argparse.ArgumentParser = arguments.build_parser()
    _name_values(parser)
    show(shtab.complete(parser, shell=arguments.shell) + "\n")
    return 0


def _name_values(parser: argparse.ArgumentParser) -> None:
    """Tells shtab the values of options such as `--format text|json`, which are refused in words of their own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _name_values(each)
        elif action.choices is None and isinstance(action.metavar, str) and "|" in action.metavar:
            action.choices = action.metavar.split("|")
