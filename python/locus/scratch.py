"""Locus's temporary files: where they lie, how they are made, and how they go.

One folder of mode 0700 for each command, with everything in it. A file is made anew (never one that is there already,
never through a link) with mode 0600, and takes its place by its name only when it is whole. The folder goes with the
command; where that is killed, the process beside it (locus.process.companion) takes it away; where that is killed too,
the next command does, an hour later.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
import time

from locus.errors import LocusError

_PREFIX = "locus-"
_OWNER = "owner"  # a file that says whose folder it is
_STALE = 3600.0  # seconds without a new file

_numbers = itertools.count()

FOLDER_VARIABLE = "LOCUS_CHECK_DIR"
"""Names the folder of a check, for the processes that the program starts."""


_of_check: str | None = None


def of_check() -> str:
    """The folder of the check that this process belongs to, or ""; whatever the program makes of os.environ."""
    return os.environ.get(FOLDER_VARIABLE, "") if _of_check is None else _of_check


def belong_to(folder: str) -> None:
    """From here on this process, and those that it starts, belong to the check with this folder; "": to none."""
    global _of_check
    _of_check = folder
    if folder:
        os.environ[FOLDER_VARIABLE] = folder
    else:
        os.environ.pop(FOLDER_VARIABLE, None)


def make() -> str:
    """A new folder that only this user can look into; a LocusError where there is no room for one."""
    before = tempfile.tempdir
    try:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        os.chmod(path, 0o700)  # a umask can take from that, too
        write(os.path.join(path, _OWNER), f"{machine()} {os.getpid()} {birth(os.getpid())}")
    except OSError as error:
        where = "" if error.filename is None else f"{os.path.dirname(error.filename)}: "
        raise LocusError(
            f"no temporary folder can be made: {where}{error.strerror}. Set TMPDIR to a folder that you can write to, "
            "on a disk with room."
        ) from None
    finally:
        tempfile.tempdir = before  # the program may yet set TMPDIR
    _sweep(os.path.dirname(path))
    return path


def owner(folder: str) -> int:
    """The process that has made a folder."""
    return int(read(os.path.join(folder, _OWNER)).split()[-2])


def birth(pid: int) -> str:
    """When a process began: with its number, what tells it from all others; "" where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def machine() -> str:
    """Where the numbers of processes are this process's: a folder may be shared with containers and other machines."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown unknown"


def _sweep(parent: str) -> None:
    """Takes folders away whose commands have been killed, with everything that should have done it."""
    here = machine()
    with contextlib.suppress(OSError):
        for name in [name for name in os.listdir(parent) if name.startswith(_PREFIX)]:
            folder = os.path.join(parent, name)
            with contextlib.suppress(OSError, ValueError):
                words = read(os.path.join(folder, _OWNER)).decode("ascii") if is_own(folder) else ""
                where, pid, born = words.rsplit(" ", 2)
                is_dead = where == here and "unknown" not in here and birth(int(pid)) != born
                if is_dead and time.time() - os.lstat(folder).st_mtime > _STALE:
                    remove(folder)


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
