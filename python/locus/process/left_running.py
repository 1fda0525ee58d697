"""Processes of a checked program that are still at work when its report is made: a service, a daemon, a shell's
background job. What they do from then on nobody sees, and the report says so. Forks are not looked for."""

from __future__ import annotations

import contextlib
import os
import time

from locus import scratch
from locus.watch import unwatched

_PATIENCE = 0.5
"""Seconds that they have to end: who was just told to is about to."""
_NEVER_THE_PROGRAM = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "torch/_inductor/", "locus.")
"""In the words of those that others start for their own ends."""
_MOST_WORDS = 60


def told(folder: str) -> list[str]:
    """What the report says of them; `folder` is the check's."""
    until = time.monotonic() + _PATIENCE
    while (left := _left(folder)) and time.monotonic() < until:
        time.sleep(_PATIENCE / 10)
    return [
        f"still running when this report was made: {words}, which the program has started; what it does from there on "
        "is not checked"
        for words in sorted(set(left))
    ]


def _left(folder: str) -> list[str]:
    variable = f"{scratch.FOLDER_VARIABLE}={folder}".encode()
    found = []
    for process in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if process.isdecimal() and int(process) != os.getpid():
            with contextlib.suppress(OSError):  # another user's, or gone
                if variable in _read(process, "environ"):
                    found.append([os.fsdecode(word) for word in _read(process, "cmdline")[:-1]])
    return [_shown(words) for words in found if _runs_the_program(words)]


def _read(process: str, name: str) -> list[bytes]:
    with open(f"/proc/{process}/{name}", "rb") as file:
        return file.read().split(b"\0")


def _runs_the_program(words: list[str]) -> bool:
    is_helper = any(mark in word for word in words[1:] for mark in _NEVER_THE_PROGRAM)
    return bool(words) and not is_helper and unwatched.runs_python(words[0], words)


def _shown(words: list[str]) -> str:
    text = " ".join(" ".join([os.path.basename(words[0]), *words[1:]]).split())
    return f"`{text if len(text) <= _MOST_WORDS else text[: _MOST_WORDS - 1] + '…'}`"
