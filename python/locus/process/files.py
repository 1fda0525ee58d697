"""What is said of a file that a command was given and that can't be opened: with the name that may have been meant."""

from __future__ import annotations

import difflib
import errno
import os


def cannot_open(kind: str, path: str, error: OSError | None = None) -> str:
    """The message; without an error the file is not there."""
    missing = error is None or error.errno == errno.ENOENT
    why = os.strerror(errno.ENOENT) if error is None else error.strerror
    meant = _alike(path) if missing else ""
    hint = f"Did you mean {meant}?" if meant else "Check its name and the current folder."
    return f"can't open the {kind} {path!r}: {why}. {hint}"


def _alike(path: str) -> str:
    """The file in the same folder whose name is nearly that one; "" where there is none. Its ending is no likeness."""
    folder, wanted = os.path.split(path)
    stem, ending = os.path.splitext(wanted)
    try:
        names = [os.path.splitext(name) for name in sorted(os.listdir(folder or "."))]
    except OSError:
        return ""
    stems = [name for name, its_ending in names if its_ending == ending or name == stem]
    near = difflib.get_close_matches(stem, stems, 1, 0.75)
    if not near:
        return ""
    return os.path.join(folder, next("".join(name) for name in names if name[0] == near[0]))
