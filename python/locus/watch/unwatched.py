"""Python processes that a check can't follow, because whoever starts them leaves out what it goes by: the environment
variables, or the site folders where Locus begins. Nothing that they do is in the report, and it says so. No torch.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from locus import scratch
from locus.program import places
from locus.watch import made_up

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX = 1000
_PYTHON = r"(?:python|pypy)[\d.]*t?"
_IS_PYTHON = re.compile(_PYTHON)
_RUNS_PYTHON = re.compile(rf"(?:^|[\s;&|(/]){_PYTHON}\s")  # in the text of a shell
_SHELLS = ("sh", "bash", "dash", "zsh")
_WITHOUT_SITE = re.compile(r"-[bBdEhiIOPqsuvVx]*S[a-zA-Z]*")  # python -S, also among others: -BS

_NO_VARIABLES = (
    "the environment that it is given leaves out the variables of Locus; with env={**os.environ, …} it is checked"
)
_TAKEN_OUT = "the program has taken the variables of Locus out of os.environ; with them there it is checked"
_NO_SITE = "python -S does not load what begins a check"

_started: dict[tuple[str, int, str], None] = {}
"""The program's line, and why."""
_listens = False


def listen() -> None:
    """From here on. Python has no way to take a hook back: one for each process."""
    global _listens
    if _listens:
        return
    _listens = True
    heard: dict[str, Callable[[tuple[object, ...]], None]] = {
        "subprocess.Popen": lambda given: _begins(given[0], given[1], given[3]),
        "os.posix_spawn": lambda given: _begins(given[0], given[1], given[2]),
        "os.exec": lambda given: _begins(given[0], given[1], given[2]),
        "os.system": lambda given: _begins("sh", ["sh", "-c", given[0]], None),
    }

    def hear(event: str, given: tuple[object, ...]) -> None:
        act = heard.get(event)
        if act is not None and scratch.of_check():
            act((*given, None, None, None, None))

    sys.addaudithook(hear)


def told() -> list[str]:
    """What the report says of them."""
    by_reason: dict[str, list[str]] = {}
    for file, line, why in _started:
        by_reason.setdefault(why, []).append(made_up.shown(file, line))
    return [
        f"{made_up.listed(lines)} starts a Python process that this check does not see: {why}"
        for why, lines in by_reason.items()
    ]


def forget() -> None:
    """Another program begins, or another part of it."""
    _started.clear()


def _begins(program: object, words: object, environment: object) -> None:
    given = _texts(words)
    why = _blinded(_text(program) or (given[0] if given else ""), given, environment)
    if not why or len(_started) >= _MAX or places.is_alone():
        return
    users = [frame for frame in places.walk(sys._getframe(1)) if places.is_user_file(frame.f_code.co_filename)]
    if users:  # else it is Locus that starts one
        _started[users[0].f_code.co_filename, users[0].f_lineno or 0, why] = None


def runs_python(program: str, words: list[str]) -> bool:
    """Whether a process is Python, or a shell that starts it."""
    name = os.path.basename(program)
    if name in _SHELLS:
        return any(_RUNS_PYTHON.search(word + " ") for word in words[1:])
    return _IS_PYTHON.fullmatch(name) is not None


def _blinded(program: str, words: list[str], environment: object) -> str:
    """Why Python would not be checked in this process; "" where it is, or where this is no Python."""
    if not runs_python(program, words):
        return ""
    if environment is None or environment is os.environ:
        if isinstance(os.environ, os._Environ) and scratch.FOLDER_VARIABLE not in os.environ:
            return _TAKEN_OUT
    elif scratch.FOLDER_VARIABLE not in _names(environment):
        return _NO_VARIABLES
    options = []
    for word in words[1:]:
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            break
        options.append(word)
    if os.path.basename(program) not in _SHELLS and any(_WITHOUT_SITE.fullmatch(word) for word in options):
        return _NO_SITE
    return ""


def _names(environment: object) -> set[str]:
    try:
        return {_text(name) for name in environment}  # type: ignore[attr-defined]  # a mapping, or what fails as one
    except TypeError:
        return set()


def _texts(words: object) -> list[str]:
    if isinstance(words, (str, bytes, os.PathLike)):
        return [_text(words)]
    return [_text(word) for word in words] if isinstance(words, (list, tuple)) else []


def _text(word: object) -> str:
    try:
        return os.fsdecode(word) if isinstance(word, (str, bytes, os.PathLike)) else ""
    except (TypeError, ValueError):
        return ""
