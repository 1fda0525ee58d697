"""`locus check a.py b.py examples/`: several programs, each in a process of its own, and one summary."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

from locus.commands import run
from locus.errors import UsageError
from locus.process import endings, files, reports, screen

_SUFFIXES = (".py", ".ipynb")
_ONE_PROGRAM_EACH = ("json", "html", "trace", "report_dir")
"""Files that are about one program."""
_OF_ALL = ("command", "module", "code", "script", "each", "output")
"""What the command line says about all programs together, and not about each."""


_IMPORTS_TORCH = re.compile(rb"^[ \t]*\"?(import|from)[ \t][^\n#]*\btorch\w*\b", re.MULTILINE)
_READS_ARGUMENTS = re.compile(
    rb"\b(argv|argparse|\w*ArgumentParser|parse_args|optparse|getopt|click|typer|fire|absl|hydra|tyro|docopt|runpy)\b|\bexec\("
)
"""What a program's text has where words behind its name may be meant for it. exec() may run a file that reads them."""


class Done(NamedTuple):
    """A program that was checked."""

    name: str
    status: int
    words: str
    findings: int


def is_folder_of_programs(words: list[str]) -> bool:
    """Whether the command line names a folder that is no program itself."""
    return bool(words) and os.path.isdir(words[0]) and not os.path.exists(os.path.join(words[0], "__main__.py"))


def are_programs(words: list[str]) -> bool:
    """`a.py b.py examples/`: whether what stands behind a program are further ones, and not its arguments. They are
    where each of them imports torch, which a configuration does not, and the first does not look at its arguments."""
    if len(words) < 2 or not _is_program(words[0]) or reads_arguments(words[0]):
        return False
    return all(is_folder_of_programs([word]) and _in_folder(word) if os.path.isdir(word) else _is_program(word)
               for word in words[1:])  # fmt: skip


def reads_arguments(program: str) -> bool:
    """Whether words behind its name may be meant for it."""
    return _READS_ARGUMENTS.search(_text(program)) is not None


def _is_program(path: str) -> bool:
    return path.endswith(_SUFFIXES) and os.path.isfile(path) and _IMPORTS_TORCH.search(_text(path)) is not None


def execute(arguments: argparse.Namespace, words: list[str]) -> int:
    """Checks every program; 1 where one has findings, else the largest exit status."""
    for form in _ONE_PROGRAM_EACH:
        if getattr(arguments, form) is not None:
            raise UsageError(f"--{form.replace('_', '-')} is about one program. Check one at a time, or use --sarif.")
    if arguments.output is not None or arguments.format not in ("text", "concise", "github"):
        raise UsageError("several programs are shown one after the other; -o and this --format can't be had with them.")
    outputs = reports.outputs(arguments)
    programs = [program for word in words for program in _programs(word)]
    own = _own_options(arguments)
    done = []
    with tempfile.TemporaryDirectory(prefix="locus-") as folder:
        for number, program in enumerate(programs):
            _show_title(program, number + 1, len(programs))
            done.append(_check(program, own, os.path.join(folder, f"{number}.json")))
        for output in outputs:
            _join(output, [os.path.join(folder, f"{number}.json") for number in range(len(programs))])
    if not arguments.quiet:
        endings.to_stderr(_summary(done).encode("utf-8", "replace"))
    return 1 if any(each.status == 1 for each in done) else max(each.status for each in done)


def _programs(word: str) -> list[str]:
    """A program, or those of a folder: its files that mention torch, without tests and what begins with "_"."""
    if not os.path.isdir(word):
        if not os.path.exists(word):
            raise UsageError(files.cannot_open("program", word))
        return [word]
    found = _in_folder(word)
    if not found:
        raise UsageError(f"{word} has no program that uses torch. Give the programs by name.")
    return found


def _in_folder(folder: str) -> list[str]:
    names = [name for name in sorted(os.listdir(folder)) if not name.startswith(("_", ".", "test_"))]
    paths = [os.path.join(folder, name) for name in names if name.endswith(_SUFFIXES)]
    return [path for path in paths if b"torch" in _text(path)]


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _own_options(arguments: argparse.Namespace) -> list[str]:
    """The options that hold for each of them: all but those that say what to check and where all of it is written."""
    return run.given(arguments, (name for name in vars(arguments) if name not in (*_OF_ALL, *reports.SIDE_FORMS)))


def _show_title(program: str, number: int, count: int) -> None:
    title = f"=== {program}{f' ({number} of {count})' if count > 1 else ''}\n"
    title = f"\x1b[1m{title}\x1b[0m" if screen.look(2).color else title
    endings.to_stderr(title.encode("utf-8", "replace"))


def _check(program: str, options: list[str], report: str) -> Done:
    command = [sys.executable, "-m", "locus", "check", *options, "--json", report, "--", program]
    status = subprocess.run(command, check=False).returncode
    status = 128 - status if status < 0 else status
    try:
        with open(report, "rb") as file:
            found = json.load(file)
        return Done(program, status, found["verdict"]["words"], len(found["findings"]))
    except (OSError, ValueError, KeyError):
        return Done(program, status, "not checked", 0)


def _summary(done: list[Done]) -> str:
    """A line for each program, and one for all."""
    width = max(len(each.name) for each in done)
    lines = [f"{each.name:<{width}}  {each.words}" for each in done]
    found = sum(each.findings for each in done)
    with_findings = sum(each.findings > 0 for each in done)
    count = f"{len(done)} program{'s' * (len(done) != 1)}"
    missed = sum(each.status not in (0, 1) for each in done)
    words = (
        f"{found} finding{'s' * (found != 1)} in {with_findings} of {count}" if found else f"nothing found in {count}"
    )
    return "\n".join([*lines, f"locus: {words}{f'; {missed} not checked to the end' if missed else ''}"]) + "\n"


def _join(output: reports.Output, files: list[str]) -> None:
    """One file for all programs: SARIF has a run for each, GitLab's list all issues, Markdown all sections."""
    parts = []
    for path in files:
        if os.path.exists(path):
            with open(path, "rb") as file:
                parts.append(reports.render(reports.load(file.read()), output.form))
    if output.form == "sarif":
        whole = json.loads(parts[0]) if parts else {"version": "2.1.0", "runs": []}
        whole["runs"] = [run for part in parts for run in json.loads(part)["runs"]]
        data = json.dumps(whole, indent=2, ensure_ascii=False).encode() + b"\n"
    elif output.form == "gitlab":
        data = json.dumps([issue for part in parts for issue in json.loads(part)], indent=2).encode() + b"\n"
    else:
        data = b"\n".join(parts)
    if output.path == reports.STDOUT:
        reports.show_all(1, data)
        return
    with open(output.path, "wb") as file:
        file.write(data)
