"""The programs with known mistakes: which lines are marked, what their fixed twins are, where a run stopped.

A wrong program marks each mistake in place, by comments at the end of lines:

    # BUG: <reason>[|<reason>…] [culprit=<name>[|<name>…]]   the line to edit; "# BUG 2:" where the order is another
    # ALSO: <n>                                              a line that may be blamed for mistake n just as well
    # RAISES: <n>                                            where PyTorch stops because of mistake n alone
    # RAISES: none                                           PyTorch lets it pass, with a wrong result

and says what its twin has instead, by comments of their own with the indentation of the code:

    # FIX: <code>     instead of the line directly above; several of them: several lines; without code: no line
    # ADD: <code>     a line that only the twin has

Both belong to the mistake that the line above is marked with; where it has no mark, "# FIX 2:" and "# ADD 2:" say it.
"""

from __future__ import annotations

import functools
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
DEVICES = 2

_CODES = PROGRAMS.parent.parent / "locus" / "engine" / "codes.def"
_CODE = re.compile(r'LOCUS_CODE\(k\w+, "LOC(\d+)", "([\w-]+)"')
# Those with programs of their own: tests/dist, tests/programs/{streams,memory,graphs}.
_ELSEWHERE = {*range(22, 33), *range(34, 45)}

REASONS = frozenset(reason for number, reason in _CODE.findall(_CODES.read_text()) if int(number) not in _ELSEWHERE)

ANY_REASON = "any"  # for who wrote a program without a look at the list

_BUG = re.compile(r"# BUG(?: (\d+))?: (\S+)(?: culprit=(.+?))?\s*(?=# (?:ALSO|RAISES):|$)")
_ALSO = re.compile(r"# ALSO: (\d+)")
_RAISES = re.compile(r"# RAISES: (none|\d+)")
_MARKS = re.compile(r"\s*# (?:BUG|ALSO|RAISES)\b.*$")
_CHANGE = re.compile(r"(\s*)# (FIX|ADD)(?: (\d+))?:(?: (.+))?$")

# What PyTorch says when a tensor is on the wrong device; anything else that ends a program is another story.
DEVICE_ERROR = re.compile(
    r"same device"
    r"|but got .* is on (?:cpu|cuda)"
    r"|device type|device index"
    r"|weight type \(torch"
    r"|Expected a '\w+' (?:device type )?(?:for )?generator|generator device|generator for '?\w+'?"
    r"|should be on the CPU|must be on the CPU|should be a 1D CPU"
    r"|indices should be either on"
    r"|can't convert cuda|Cannot re-initialize CUDA"
    r"|expected device|expected .* device|[Ee]xpected .* to be on|be on the same|on different devices"
    r"|(?:all|both|input|inputs|tensors?) .*(?:on|to) .*\b(?:cpu|cuda|CPU|CUDA|GPU|device)\b"
    r"|torch\.cuda\.\w+Tensor"
    r"|must have its parameters and buffers on device"
)


@dataclass
class Mistake:
    """One marked mistake of a program."""

    number: int
    line: int
    reasons: list[str]
    culprits: list[str]
    also: list[int] = field(default_factory=list)
    raises: int | None = None

    @property
    def accepted_lines(self) -> list[int]:
        return [self.line, *self.also]


def read_mistakes(source: str) -> list[Mistake]:
    """The marked mistakes, by number."""
    mistakes: dict[int, Mistake] = {}
    lines = list(enumerate(source.splitlines(), 1))
    for line, text in lines:
        if bug := _BUG.search(text):
            number = int(bug[1]) if bug[1] else len(mistakes) + 1
            if number in mistakes:
                raise ValueError(f"line {line}: mistake {number} is marked twice")
            mistakes[number] = Mistake(number, line, bug[2].split("|"), (bug[3] or "").split("|"))
    for line, text in lines:
        for number in _ALSO.findall(text):
            mistakes[int(number)].also.append(line)
        for number in _RAISES.findall(text):
            if number != "none":
                mistakes[int(number)].raises = line
    if sorted(mistakes) != list(range(1, len(mistakes) + 1)):
        raise ValueError(f"the mistakes are numbered {sorted(mistakes)}")
    return [mistakes[n] for n in sorted(mistakes)]


def raises_nothing(source: str) -> bool:
    """Whether PyTorch lets the whole program pass, wrong as it is."""
    return "# RAISES: none" in source


@dataclass
class Change:
    """What the twin has instead of one line, or below it."""

    line: int
    """The line that is replaced, or that the added ones follow; from 1."""
    replaces: bool
    number: int | None
    """The mistake, where the mark says it."""
    code: list[str] = field(default_factory=list)


def read_changes(source: str) -> list[Change]:
    """What the marks say about the twin, from top to bottom."""
    changes: list[Change] = []
    above: Change | None = None  # that of the line before
    code_line, has_code = 0, False
    for line, text in enumerate(source.splitlines(), 1):
        mark = _CHANGE.match(text)
        if mark is None:
            code_line, has_code, above = line, bool(text.strip()), None
            continue
        indentation, kind, number, code = mark.groups()
        replaces, mistake = kind == "FIX", int(number) if number else None
        if above is None or above.replaces != replaces or above.number != mistake:
            if replaces and (code_line != line - 1 or not has_code):
                raise ValueError(f"line {line}: no line of the program is directly above this FIX")
            above = Change(code_line, replaces, mistake)
            changes.append(above)
        if code:
            above.code.append(indentation + code)
        elif not replaces or above.code:
            raise ValueError(f"line {line}: this {kind} has no code")
    return changes


def mistake_of(change: Change, mistakes: list[Mistake]) -> int:
    """The number of the mistake that a change fixes."""
    if change.number:
        return change.number
    marked = [m for m in mistakes if change.line == m.line] or [m for m in mistakes if change.line in m.also]
    if len(marked or mistakes) != 1:
        raise ValueError(f"line {change.line}: which of the mistakes is fixed here? Write # FIX 2: or # ADD 2:")
    return (marked or mistakes)[0].number


def _rewritten(source: str, changes: list[Change]) -> tuple[str, dict[int, int]]:
    """The program without its marks and with these changes, and where each of its old lines is now."""
    replaced = {change.line: change.code for change in changes if change.replaces}
    added: dict[int, list[str]] = {}
    for change in changes:
        if not change.replaces:
            added.setdefault(change.line, []).extend(change.code)
    lines = added.get(0, [])
    where: dict[int, int] = {}
    for number, text in enumerate(source.splitlines(), 1):
        if _CHANGE.match(text):
            continue
        where[number] = len(lines) + 1
        lines += replaced.get(number, [_MARKS.sub("", text)])
        lines += added.get(number, [])
    return "\n".join(lines) + "\n", where


def fixed_source(source: str) -> str:
    """The twin: the program with every mistake fixed, without marks."""
    return _rewritten(source, read_changes(source))[0]


def only_mistake(source: str, number: int) -> tuple[str, dict[int, int]]:
    """The program with every mistake fixed but one, and where each of its old lines is now."""
    mistakes = read_mistakes(source)
    return _rewritten(source, [c for c in read_changes(source) if mistake_of(c, mistakes) != number])


@functools.cache
def _folder_of_twins() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fixed-programs-")


@functools.cache
def fixed(path: Path) -> Path:
    """The twin of a wrong program as a file of the same name; it is there until this process ends."""
    twin = Path(_folder_of_twins().name) / path.parent.parent.name / "fixed" / path.name
    twin.parent.mkdir(parents=True, exist_ok=True)
    twin.write_text(fixed_source(path.read_text()))
    return twin


def stopped_at(stderr: str, program: str) -> int | None:
    """The innermost line of the program in the last traceback, wherever in a thread or worker it was."""
    frames = re.findall(rf'File "{re.escape(program)}", line (\d+)', stderr)
    return int(frames[-1]) if frames else None


def is_device_error(stderr: str) -> bool:
    """Whether the last thing said is PyTorch refusing a placement."""
    tail = [line for line in stderr.splitlines() if re.match(r"\w[\w.]*(?:Error|Exception)\b", line)]
    return bool(tail) and any(DEVICE_ERROR.search(line) for line in tail[-2:])


def programs(folder: str) -> list[Path]:
    return sorted((PROGRAMS / folder).glob("*.py"))


def needs_two_devices(path: Path) -> bool:
    text = path.read_text()
    return any(
        word in text
        for word in ("cuda:1", "cuda(1)", "device(1)", "DataParallel", "device_count() - 1", "dev1", "device=1")
    )


def fixed_programs(folder: str = "wrong") -> list[Path]:
    """The twins of a folder of wrong programs."""
    return [fixed(path) for path in programs(folder)]
