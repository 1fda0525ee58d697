"""The programs with known mistakes: which lines are marked, how a twin mends them, where a run stopped.

A buggy program marks each mistake in place, by comments at the end of lines:

    # BUG: <reason>[|<reason>…] culprit=<name>[|<name>…]   the line to edit; "# BUG 2:" where the order is another
    # ALSO: <n>                                            a line that may be blamed for mistake n just as well
    # RAISES: <n>                                          where PyTorch stops because of mistake n alone
    # RAISES: none                                         PyTorch lets it pass, with a wrong result
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
DEVICES = 2

_CODES = PROGRAMS.parent.parent / "locus" / "engine" / "codes.def"
_CODE = re.compile(r'LOCUS_CODE\(k\w+, "LOC(\d+)", "([\w-]+)"')
_LAST = 21  # those after it are about distributed programs: tests/dist

REASONS = frozenset(reason for number, reason in _CODE.findall(_CODES.read_text()) if int(number) <= _LAST)

_BUG = re.compile(r"# BUG(?: (\d+))?: (\S+) culprit=(.+?)\s*(?=# (?:ALSO|RAISES):|$)")
_ALSO = re.compile(r"# ALSO: (\d+)")
_RAISES = re.compile(r"# RAISES: (none|\d+)")
_MARKS = re.compile(r"\s*# (?:BUG|ALSO|RAISES)\b.*$")

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
            mistakes[number] = Mistake(number, line, bug[2].split("|"), bug[3].split("|"))
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


def strip_marks(source: str) -> list[str]:
    return [_MARKS.sub("", line) for line in source.splitlines()]


@dataclass(frozen=True)
class Hunk:
    """Lines start…end (from 0, end not included) of the buggy program, and what stands there in the mended one."""

    start: int
    end: int
    lines: tuple[str, ...]


def hunks(buggy: str, mended: str) -> list[Hunk]:
    """What the mended twin changes."""
    old, new = strip_marks(buggy), mended.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [Hunk(a, b, tuple(new[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def hunks_of(mistake: Mistake, all_hunks: list[Hunk], mistakes: list[Mistake]) -> list[Hunk]:
    """The hunks that mend this mistake: those nearest to its line rather than to another's."""
    if len(mistakes) == 1:
        return all_hunks

    def nearest(hunk: Hunk) -> Mistake:
        return min(
            mistakes, key=lambda m: 0 if hunk.start <= m.line - 1 < hunk.end else 1 + abs(hunk.start - (m.line - 1))
        )

    return [hunk for hunk in all_hunks if nearest(hunk) is mistake]


def split_hunks(all_hunks: list[Hunk]) -> list[Hunk]:
    """Two mends on neighbouring lines come as one hunk; line for line they are two."""
    result = []
    for hunk in all_hunks:
        if hunk.end - hunk.start == len(hunk.lines) > 1:
            result += [Hunk(hunk.start + i, hunk.start + i + 1, (line,)) for i, line in enumerate(hunk.lines)]
        else:
            result.append(hunk)
    return result


def mend(buggy: str, chosen: list[Hunk]) -> tuple[str, dict[int, int]]:
    """The program with the chosen hunks, and where each of its old lines is now."""
    lines = strip_marks(buggy)
    where = {n: n for n in range(1, len(lines) + 1)}
    for hunk in sorted(chosen, key=lambda h: h.start, reverse=True):
        lines[hunk.start : hunk.end] = hunk.lines
        grown = len(hunk.lines) - (hunk.end - hunk.start)
        for old in where:
            if old > hunk.end:
                where[old] += grown
    return "\n".join(lines) + "\n", where


def only_mistake(buggy: str, mended: str, number: int) -> tuple[str, dict[int, int]]:
    """The program with every mistake mended but one."""
    mistakes = read_mistakes(buggy)
    pieces = split_hunks(hunks(buggy, mended))
    others = [m for m in mistakes if m.number != number]
    return mend(buggy, [hunk for m in others for hunk in hunks_of(m, pieces, mistakes)])


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
