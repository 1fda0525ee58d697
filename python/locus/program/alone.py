"""Ranks that run without the rest of their world (`--ranks`): how such a process knows that it is one, and the folder
in which these ranks leave word for each other. No torch."""

from __future__ import annotations

import os

RANKS_VARIABLE = "LOCUS_RANKS"
"""The ranks that run, "0,1,512"; with a "+" at the end, more are started when somebody waits for them."""
FOLDER_VARIABLE = "LOCUS_RANKS_DIR"
RECORD = ".record"
"""The ending of what a rank says of its meshes and groups."""
CALLS = ".calls"
"""The ending of a rank's collectives and messages, in order."""
ONE_MACHINE_VARIABLE = "LOCUS_ONE_MACHINE"
"""Set where the hosts of a cluster are this machine, each of them: `--nnodes`."""


def is_alone() -> bool:
    """Whether this process is a rank whose collectives are answered by shape."""
    return bool(os.environ.get(RANKS_VARIABLE)) and os.environ.get("RANK", "").isdecimal()


def folder() -> str:
    """Where these ranks leave word for each other."""
    return os.environ.get(FOLDER_VARIABLE, "")


def running() -> list[int]:
    """The ranks that run, as far as that was known when this one was started."""
    words = os.environ.get(RANKS_VARIABLE, "").rstrip("+").split(",")
    return [int(word) for word in words if word.isdecimal()]


def is_open() -> bool:
    """Whether a rank is started when somebody waits for a message of its."""
    return os.environ.get(RANKS_VARIABLE, "").endswith("+")


def environment(ranks: list[int], more: bool, path: str) -> dict[str, str]:
    """What makes a process such a rank."""
    return {RANKS_VARIABLE: ",".join(map(str, ranks)) + "+" * more, FOLDER_VARIABLE: path}
