"""Locus's temporary files: where they lie, how they are made, and how they go.

One folder of mode 0700 for each command, with everything in it. A file is made anew (never one that is there already,
never through a link) with mode 0600, and takes its place by its name only when it is whole. The folder goes with the
command; where that is killed, the process beside it (locus.companion) takes it away.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile

from locus.errors import LocusError

_numbers = itertools.count()


def make() -> str:
    """A new folder that only this user can look into; a LocusError where there is no room for one."""
    before = tempfile.tempdir
    try:
        path = tempfile.mkdtemp(prefix="locus-")
        os.chmod(path, 0o700)  # a umask can take from that, too
    except OSError as error:
        where = "" if error.filename is None else f"{os.path.dirname(error.filename)}: "
        raise LocusError(
            f"no temporary folder can be made: {where}{error.strerror}. Set TMPDIR to a folder that you can write to, "
            "on a disk with room."
        ) from None
    finally:
        tempfile.tempdir = before  # the program may yet set TMPDIR
    return path


def make_inside(folder: str, name: str) -> str:
    """A folder in another one; there must be none of that name."""
    path = os.path.join(folder, name)
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)
    return path


def is_own(folder: str) -> bool:
    """Whether a folder is there, is this user's, and nobody else can put files into it."""
    try:
        found = os.lstat(folder)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def create(path: str, flags: int = os.O_WRONLY) -> int:
    """A descriptor of a new file."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def write(path: str, data: bytes | str) -> None:
    """Writes a file that others read: they find the old one or the new one, and nothing in between."""
    new = f"{path}.{os.getpid()}-{next(_numbers)}~"
    try:
        with open(create(new), "wb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def read(path: str) -> bytes:
    """What is in a file; a link is not followed."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read()


def remove(folder: str) -> None:
    """Takes a folder away, also while somebody still writes into it."""
    gone = f"{folder}~"
    with contextlib.suppress(OSError):
        os.rename(folder, gone)  # from here on nobody finds it by its name
        folder = gone
    shutil.rmtree(folder, ignore_errors=True)
    if is_own(gone):  # whoever began to take it away was killed
        shutil.rmtree(gone, ignore_errors=True)
