"""The error that ended a rank: another rank that waits for it in a collective wants to know. A file that was not there,
and is by now, was read before the rank that writes it had done so.
"""

from __future__ import annotations

import glob
import json
import os
from typing import TYPE_CHECKING

from locus import scratch
from locus.program import places
from locus.watch import uncaught

if TYPE_CHECKING:
    from locus.program.shapes import Location

_MAX_WORDS = 200

_raised: dict[str, object] | None = None


def install() -> None:
    """Notes the first error that nobody catches. Once a process."""
    uncaught.listeners.append(_note)


def last_word() -> dict[str, object]:
    """What is left for the other ranks; empty: no error has come."""
    return {} if _raised is None else {"raised": _raised}


def read(folder: str) -> dict[int, str]:
    """By rank, the error that ended it, as JSON; a file that is there by now is looked for again."""
    found: dict[int, str] = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "*.passes")):
        word = json.loads(looked_again(scratch.read(path)))
        if "raised" in word:
            found[word["rank"]] = json.dumps(word["raised"])
    return found


def looked_again(text: str | bytes) -> str:
    """What a rank has left, with whether a file that it did not find is there now."""
    word = json.loads(text)
    if "raised" in word:
        word["raised"]["is_there"] = _is_there(word["raised"]["file"])
    return json.dumps(word)


def _note(error: BaseException) -> None:
    global _raised
    if _raised is not None or isinstance(error, (SystemExit, KeyboardInterrupt)):
        return
    file = ""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, (str, bytes, os.PathLike)):
        file = os.path.abspath(os.fsdecode(error.filename))
    words = str(error).partition("\n")[0]
    _raised = {
        "type": type(error).__name__,
        "words": words[:_MAX_WORDS],
        "file": file,
        "is_there": False,
        "at": _place(error),
    }


def _is_there(file: str) -> bool:
    return bool(file) and os.path.exists(file)


def _place(error: BaseException) -> Location:
    """The program's innermost line that the error came through."""
    place, traceback = places.unknown_location(), error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if places.is_user_file(code.co_filename):
            positions = places.positions(code, traceback.tb_lasti)
            place = places.location(code.co_filename, *positions, places.function_name(code))
        traceback = traceback.tb_next
    return place
