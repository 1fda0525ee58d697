"""`python -m locus.ground_truth`: takes a table of what PyTorch says to operands on two devices, or compares tables."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from typing import NoReturn

from locus.errors import LocusError, UsageError
from locus.ground_truth import cases, comparing, table, taking

_PROGRAM = "python -m locus.ground_truth"
_INTERRUPTED = 130
_EVERY = 10.0  # seconds between lines of progress where there is no terminal
_MOST_PROCESSES = 12
_KNOWN_DTYPES = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "complex32", "int64", "int32",
                 "int16", "int8", "uint8", "bool")  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _complain(f"{message}. `{_PROGRAM} --help` shows how.")
        raise SystemExit(2)


def _complain(message: str) -> None:
    print(f"locus: error: {message}", file=sys.stderr)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog=_PROGRAM,
        allow_abbrev=False,
        description="What PyTorch says when an operand of a call is on another device, case by case: taken on this "
        "machine's GPU, and compared with the simulated devices. 0: equal, 1: differences, 2: it could not be done.",
    )
    parser.add_argument("--out", metavar="FILE", help="take a table and write it there, as .json or .json.gz")
    parser.add_argument("--simulated", action="store_true", help="take it on simulated devices, not on a GPU")
    parser.add_argument("--compare", metavar="TABLE", nargs="+",
                        help="compare a table with the simulated devices here, or with a second table")  # fmt: skip
    parser.add_argument("--words", action="store_true", help="list, and count as a difference, errors in other words")
    parser.add_argument("--only", metavar="NAME", action="append", default=[],
                        help="only this operator, module or optimizer; with * and ?; may be given again")  # fmt: skip
    parser.add_argument("--dtypes", metavar="LIST", help=f"separated by commas (default: {','.join(cases.DTYPES)})")
    parser.add_argument("--limit", metavar="SECONDS", help="stop then; the same command again goes on from there")
    parser.add_argument("--processes", metavar="N",
                        help=f"side by side (default: one for each core, at most {_MOST_PROCESSES})")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run that did not finish has taken")
    parsed = parser.parse_args(given)
    if parsed.compare is None and parsed.out is None:
        parser.error("nothing to do: give --out FILE to take a table, or --compare TABLE to compare one")
    if parsed.compare is not None and (parsed.out is not None or len(parsed.compare) > 2):
        parser.error("--compare takes one or two tables and no --out" if parsed.out is None
                     else "--out takes a table and --compare compares tables: give one of them")  # fmt: skip
    return parsed


def main(given: list[str] | None = None) -> int:
    arguments = _arguments(given)
    try:
        return _compare(arguments) if arguments.compare else _take(arguments)
    except LocusError as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED


def _take(arguments: argparse.Namespace) -> int:
    path = arguments.out
    folder = os.path.dirname(path) or "."
    if not path.endswith((".json", ".json.gz")):
        raise UsageError(f"--out {path}: a table is written as .json or .json.gz. Give it such a name.")
    if not os.path.isdir(folder) or os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise UsageError(f"--out {path}: can't be written there. Give a file in a folder that exists.")
    wanted = taking.Wanted(
        arguments.simulated, _dtypes(arguments.dtypes) or cases.DTYPES, tuple(arguments.only),
        _seconds(arguments.limit), _processes(arguments.processes),
    )  # fmt: skip
    journal = taking.Journal(path, wanted, arguments.fresh)
    taken = _run(wanted, journal)
    if taken.missing:
        journal.close(remove=False)
        print(f"locus: {len(taken.table.rows):,} cases so far, {len(taken.missing):,} entries were not reached; "
              f"they are kept in {journal.path}, and the same command goes on from there", file=sys.stderr)  # fmt: skip
        return 2
    table.write(taken.table, path)
    journal.close(remove=True)
    for line in taken.table.about["unmade"]:
        print(f"locus: no samples: {line}", file=sys.stderr)
    refused = sum(row.said.outcome != "ok" for row in taken.table.rows.values())
    print(f"{path}: {len(taken.table.rows):,} cases on {taken.table.title}; {refused:,} refused")
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    theirs = _chosen(table.read(arguments.compare[0]), arguments)
    if len(arguments.compare) == 2:
        rows = _chosen(table.read(arguments.compare[1]), arguments).rows.values()
        names = arguments.compare[1], arguments.compare[0]
        missing: list[str] = []
    else:
        wanted = taking.Wanted(
            True, tuple(dict.fromkeys(key.dtype for key in theirs.rows)), tuple(arguments.only),
            _seconds(arguments.limit), _processes(arguments.processes), arguments.compare[0],
            frozenset(key[:3] for key in theirs.rows),
        )  # fmt: skip
        taken = _run(wanted, taking.Journal(None, wanted, False))
        rows, missing, names = taken.table.rows.values(), taken.missing, ("simulated", "table")
    comparison = comparing.Comparison(theirs).add_all(rows)
    if not comparison.count["matched"]:
        raise UsageError(
            f"{arguments.compare[0]}: none of its {len(theirs.rows):,} cases is met here: nothing to compare. "
            "PyTorch's samples, or --only and --dtypes, are other ones."
        )
    print(f"{arguments.compare[0]}: {theirs.title}\n")
    print(comparison.text(*names, words=arguments.words), end="")
    if missing:
        raise UsageError(f"{len(missing):,} entries were not reached in time. Use a longer --limit, or --only.")
    return int(bool(comparison.different) or (arguments.words and bool(comparison.words)))


def _chosen(whole: table.Table, arguments: argparse.Namespace) -> table.Table:
    """The part of a table that --only and --dtypes leave."""
    dtypes = _dtypes(arguments.dtypes)
    rows = {
        key: row
        for key, row in whole.rows.items()
        if (dtypes is None or key.dtype in dtypes)
        and (not arguments.only or any(fnmatch.fnmatchcase(key.name, one) for one in arguments.only))
    }
    if not rows:
        raise UsageError(f"{arguments.compare[0]}: the table has no case of --only and --dtypes. Leave them out.")
    return table.Table(whole.about, rows)


def _run(wanted: taking.Wanted, journal: taking.Journal) -> taking.Taken:
    began = shown = time.monotonic()
    terminal = sys.stderr.isatty()

    def progress(done: int, selected: int, rows: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < (0.2 if terminal else _EVERY):
            return
        shown = now
        text = f"locus: {done:,} of {selected:,} entries, {rows:,} cases, {now - began:.0f} s"
        print(f"\r{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    try:
        taken = taking.take(wanted, journal, progress)
    finally:
        if terminal:
            print("\r\033[K", end="", file=sys.stderr)
    for row in taken.died:
        print(f"locus: {row.key}: {row.said.outcome.lower()} {row.said.detail}", file=sys.stderr)
    return taken


def _dtypes(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(part.strip().removeprefix("torch.") for part in text.split(",")))
    for name in names:
        if name not in _KNOWN_DTYPES:
            raise UsageError(f"--dtypes {text}: {name!r} is not known. Use some of {', '.join(_KNOWN_DTYPES)}.")
    return names


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text) if text is not None else 0.0
    except ValueError:
        seconds = -1.0
    if not (seconds > 0 or text is None) or seconds == float("inf"):
        raise UsageError(f"--limit {text}: give seconds, such as 240.")
    return seconds


def _processes(text: str | None) -> int:
    if text is None:
        return min(_MOST_PROCESSES, os.cpu_count() or 1)
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise UsageError(f"--processes {text}: give a number from 1 to 64.")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
