"""`locus fix`: checks a program, runs it again with the edits that fix it, and shows or writes them."""

from __future__ import annotations

import argparse
import os

from locus.commands import check, run
from locus.errors import LocusError, UsageError
from locus.fixing import patches
from locus.fixing.verifying import Outcome
from locus.process import endings, notebooks, reports, screen

SUMMARY = "fix what a check finds: edits that were tried, as a diff or written to the files"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options: those of a check, and what to do with the edits."""
    check.configure(parser)
    parser.usage = "locus fix [OPTION ...] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    parser.add_argument("--apply", action="store_true", help="write the verified edits to the files, keep a backup")
    for action in parser._actions:
        if action.dest == "format":
            action.help = "text: a diff, and what became of each finding; else the report in that form (default: text)"
        elif action.dest == "output":
            action.help = "write the diff (or the report) there instead of standard error"
        elif action.dest == "devices":
            action.help = "how many CUDA devices, 1 to 64 (default: 2)"
        elif action.dest in (
            "verify",
            "ledger",
            "ranks",
            "node_rank",
            "master_addr",
            "master_port",
            "report_dir",
            "report_wait",
            "statistics",
            "quiet",
            "verbose",
            "each",
            "trace",
        ):  # those about hosts, ranks and trace are refused, with the reason
            action.help = argparse.SUPPRESS


def execute(arguments: argparse.Namespace) -> int:
    """0: nothing to fix, or all of it fixed with --apply; 1: findings; 2: Locus could not do it."""
    arguments.verify = True
    return check.observe(arguments, lambda observed: _finish(observed, arguments))


def _finish(observed: check.Observed, arguments: argparse.Namespace) -> int:
    outcome = observed.outcome
    if outcome is None:  # nothing was found, or the program was stopped
        check.write(observed, arguments)
        return reports.judge(observed.report).exit
    target = run.target(arguments)
    book = notebooks.opened(target.name) if target.kind == "notebook" else None
    written = _apply(outcome, book) if arguments.apply else []
    if arguments.format == "text":
        others = [output for output in observed.outputs if output.option != "-o"]
        if problems := reports.write(observed.report, others):
            raise LocusError(" ".join(problems))
        _show(outcome, arguments, written, book)
    else:
        check.write(observed, arguments)
    check.tell_of_misplaced(observed.report, arguments, configure)
    return reports.judge(observed.report, all_fixed=bool(arguments.apply and outcome.fixed)).exit


def _apply(outcome: Outcome, book: notebooks.Notebook | None) -> list[tuple[str, str]]:
    if outcome.changed:
        raise UsageError(
            f"{outcome.changed[0]} has changed since the program ran. Nothing was written; run `locus fix` again."
        )
    script, others = _parted(outcome, book)
    written = patches.write(outcome.files, others) if others else []
    if book is not None and script is not None:
        written.append(book.write(script))
    return written


def _parted(outcome: Outcome, book: notebooks.Notebook | None) -> tuple[bytes | None, dict[str, bytes]]:
    """The new text of a notebook's script, and those of files."""
    cells = [text for file, text in outcome.texts.items() if book is not None and book.has(file)]
    others = {file: text for file, text in outcome.texts.items() if book is None or not book.has(file)}
    return (cells[0] if cells else None), others


def _show(
    outcome: Outcome,
    arguments: argparse.Namespace,
    written: list[tuple[str, str]],
    book: notebooks.Notebook | None,
) -> None:
    folder = os.getcwd()

    def named(text: str) -> str:
        return text if book is None else book.name_cells(text, _relative(book.path, folder))

    verified = [a for a in outcome.attempts if a.verified]
    lines = []
    for attempt in outcome.attempts:
        finding = attempt.finding
        if attempt.verified:
            tag = "verified" if attempt.touched else "fixed"
        else:
            tag = "suggested" if finding["fixes"] else "no edit"
        place = f"{_relative(finding['cause']['file'], folder)}:{finding['cause']['line']}"
        name = finding["culprit"]["name"] or finding["culprit"]["expression"] or finding["op"]
        lines.append(f"{tag:<9}  {finding['code']}  {place}  {name} ({finding['reason']})")
        if tag == "fixed":
            lines.append(f"{'':9}  {'':6}  by the edits of the others")
        if not attempt.verified:
            lines.append(f"{'':9}  {'':6}  {attempt.why}")
            for fix in finding["fixes"]:
                lines += [f"{'':9}  {'':6}  {_relative(fix['file'], folder)}:{fix['line']}  {_first(fix['new'])}"]
    count = len(outcome.attempts)
    runs = f"{outcome.runs} more run{'s' * (outcome.runs != 1)}"
    lines.append(f"locus: {count} finding{'s' * (count != 1)}, {len(verified)} fixed by verified edits; {runs}")
    script, others = _parted(outcome, book)
    diff = patches.diff(outcome.files, others, folder)
    if book is not None and script is not None:
        diff += book.diff(script, _relative(book.path, folder)).encode("utf-8", "replace")
    if arguments.output == reports.STDOUT:
        reports.show_all(1, _colored(diff, screen.look(1).color))
        diff = b""
    elif arguments.output:
        with open(arguments.output, "wb") as file:
            file.write(diff)
        diff = b""
    for path, backup in written:
        lines.append(f"locus: wrote {_relative(path, folder)}; as it was: {_relative(backup, folder)}")
    if verified and not arguments.apply:
        lines.append(f"next: {check.fix_command(arguments)}")
    endings.to_stderr(_colored(diff, screen.look(2).color) + named("\n".join(lines) + "\n").encode("utf-8", "replace"))


_COLORS = {b"-": b"31", b"+": b"32", b"@": b"36"}


def _colored(diff: bytes, color: bool) -> bytes:
    """A diff as git colors it."""
    if not color:
        return diff
    lines = []
    for line in diff.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        code = b"1" if text.startswith((b"---", b"+++")) else _COLORS.get(text[:1])
        lines.append(b"\x1b[%bm%b\x1b[0m%b" % (code, text, line[len(text) :]) if code else line)
    return b"".join(lines)


def _relative(path: str, folder: str) -> str:
    inside = os.path.relpath(path, folder)
    return path if inside.startswith("..") else inside


def _first(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[0].strip() + (" …" if len(lines) > 1 else "")
