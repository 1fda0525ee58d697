"""What a program does outside of itself, seen in its first run, because a second run does it again: files that it
writes or removes, folders that it makes, addresses that it connects to.

Python's audit events tell of it, and a few functions that write from C++. Nothing is looked at but these events. What
processes write that the program starts is not seen, nor what other C++ libraries write.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from locus.after_import import after_import

if TYPE_CHECKING:
    import types


_MOST = 10_000  # places that are kept
_FEW = 3  # places that are named
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM = ("/dev", "/proc", "/sys")
_CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "HF_HOME")
_CACHE_FOLDERS = ("~/.cache", "~/.triton", "~/.nv")

# Functions that open a file in C++ or Rust, of which Python hears nothing: module, name, number of the path's argument.
_WRITERS = (
    ("torch.serialization", "_open_zipfile_writer_file.__init__", 1),
    ("torch.jit._script", "RecursiveScriptModule.save", 1),
    ("torch.package.package_exporter", "PackageExporter.__init__", 1),
    ("torch.export.pt2_archive._package", "PT2ArchiveWriter.__init__", 1),
    ("safetensors", "serialize_file", 1),
    ("cv2", "imwrite", 0),
)


class Effects:
    """One program's, in this process, from start() to stop()."""

    def __init__(self, own_folder: str):
        self._own_folder, self._folder = own_folder, os.getcwd()
        self._process = os.getpid()
        self._is_on = False
        self._written: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self._made: dict[str, None] = {}
        self._reached: dict[str, None] = {}
        self._temporary: dict[str, None] = {}

    def start(self) -> None:
        """Begins to listen. Python has no way to take a hook back: one for each process."""
        self._is_on = True
        acts: dict[str, Callable[..., object]] = {
            "open": self._opens,
            "os.rename": lambda given: self._renames(given),
            "os.link": lambda given: self._writes(given[1]),
            "os.symlink": lambda given: self._writes(given[1]),
            "os.truncate": lambda given: self._writes(given[0]),
            "os.remove": lambda given: self._removes(given[0], given[1]),
            "os.rmdir": lambda given: self._removes(given[0], given[1]),
            "os.mkdir": lambda given: self._makes(given[0], given[2]),
            "shutil.rmtree": lambda given: self._removes(given[0], -1),
            "sqlite3.connect": lambda given: self._connects_to_file(given[0]),
            "socket.connect": lambda given: self._connects(given[1]),
            "socket.sendto": lambda given: self._connects(given[1]),
            "tempfile.mkstemp": lambda given: self._keep(self._temporary, given[0]),
            "tempfile.mkdtemp": lambda given: self._keep(self._temporary, given[0]),
        }

        def hear(event: str, given: tuple[object, ...]) -> None:
            act = acts.get(event)
            if act is not None and self._is_on and os.getpid() == self._process:
                # No `except`: what a signal handler of the program raises in here is the program's. And anybody may
                # raise an event, with whatever arguments.
                act((*given, None, None, None))

        sys.addaudithook(hear)
        for module, name, number in _WRITERS:
            after_import(module, functools.partial(self._wrap, name, number))

    def stop(self) -> None:
        self._is_on = False

    def words(self) -> str:
        """ "writes out/model.pt and 3 more files, connects to 127.0.0.1:29500"; "" where there is nothing to say."""
        places = _Places(self._folder, self._own_folder, self._temporary)
        written = [path for path in self._written if _is_file(path) and places.is_named(path)]
        removed = [path for path in self._removed if not os.path.lexists(path) and places.is_named(path)]
        filled = {os.path.dirname(path) for path in written}
        made = [p for p in self._made if os.path.isdir(p) and places.is_named(p) and not _holds_any(p, filled)]
        parts = [
            _list("writes", map(places.relative, written), "file"),
            _list("removes", map(places.relative, removed), "file"),
            _list("makes", (f"{places.relative(path)}/" for path in made), "folder"),
            _list("connects to", filter(places.is_named_address, self._reached), "address"),
        ]
        return ", ".join(part for part in parts if part)

    # --- Events ---

    def _keep(self, kept: dict[str, None], path: object) -> str:
        """Remembers a path, as it is now: the program may change its folder."""
        if isinstance(path, pathlib.PurePath):
            path = str(path)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or "\0" in path:
            return ""
        if not os.path.isabs(path):
            try:
                path = os.path.join(os.getcwd(), path)
            except FileNotFoundError:
                return ""
        path = os.path.normpath(path)
        if len(kept) < _MOST:
            kept[path] = None
        return path

    def _opens(self, given: tuple[object, ...]) -> None:
        path, _, flags = given[:3]  # the flags say what a mode says, too
        if isinstance(flags, int) and flags & _WRITES:
            self._writes(path)

    def _writes(self, path: object) -> None:
        if isinstance(path, (str, bytes, pathlib.PurePath)):
            self._keep(self._written, path)

    def _renames(self, given: tuple[object, ...]) -> None:
        self._removes(given[0], given[2])
        self._writes(given[1])

    def _removes(self, path: object, folder: object) -> None:
        known: dict[str, None] = {}
        path = self._keep(known, path) if type(folder) is int and folder == -1 else ""
        if path and path not in self._written and path not in self._made and os.path.lexists(path):
            self._keep(self._removed, path)

    def _makes(self, path: object, folder: object) -> None:
        known: dict[str, None] = {}
        path = self._keep(known, path) if type(folder) is int and folder == -1 else ""
        if path and not os.path.lexists(path):
            self._keep(self._made, path)

    def _connects_to_file(self, database: object) -> None:
        name = os.fsdecode(database) if isinstance(database, (str, bytes)) else ""
        if name and name != ":memory:" and not name.startswith("file:"):
            self._writes(name)

    def _connects(self, address: object) -> None:
        if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[0], str):
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            name = f"{host}:{address[1]}"
        elif isinstance(address, (str, bytes)):
            name = os.fsdecode(address)
        else:
            return
        if len(self._reached) < _MOST:
            self._reached[name] = None

    # --- Functions ---

    def _wrap(self, name: str, number: int, module: types.ModuleType) -> None:
        owner: object = module
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        original = getattr(owner, last, None)
        if original is None:
            return  # another version

        @functools.wraps(original)
        def write(*given: object, **named: object) -> object:
            if len(given) > number and self._is_on:
                self._writes(given[number])
            return original(*given, **named)

        setattr(owner, last, write)


class _Places:
    """Which places are worth a word."""

    def __init__(self, folder: str, own_folder: str, temporary: Iterable[str]):
        before = tempfile.tempdir
        try:
            given = [tempfile.gettempdir()]
        except OSError:
            given = []
        finally:
            tempfile.tempdir = before
        self._folder = folder
        self._temp = given
        caches = [os.environ[name] for name in _CACHES if os.environ.get(name)]
        caches += [os.path.expanduser(name) for name in _CACHE_FOLDERS]
        self._never = [*_SYSTEM, own_folder, *caches, *temporary]

    def is_named(self, path: str) -> bool:
        if "__pycache__" in path or path.endswith(".pyc") or any(_is_in(path, folder) for folder in self._never):
            return False
        # A program that lies among the temporary files itself has its own files there.
        return _is_in(path, self._folder) or not any(_is_in(path, folder) for folder in self._temp)

    def is_named_address(self, name: str) -> bool:
        if name.startswith("\0"):
            return False
        return not name.startswith("/") or self.is_named(name)

    def relative(self, path: str) -> str:
        return os.path.relpath(path, self._folder) if _is_in(path, self._folder) else path


def _is_file(path: str) -> bool:
    return os.path.lexists(path) and not os.path.isdir(path)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _holds_any(folder: str, folders: set[str]) -> bool:
    return any(_is_in(each, folder) for each in folders)


def _list(verb: str, names: Iterable[str], kind: str) -> str:
    every = list(names)
    if not every:
        return ""
    shown, more = every[:_FEW], len(every) - _FEW
    if more > 0:
        kinds = {"address": "addresses"}.get(kind, f"{kind}s") if more > 1 else kind
        return f"{verb} {', '.join(shown)} and {more:,} more {kinds}"
    return f"{verb} {' and '.join(filter(None, [', '.join(shown[:-1]), shown[-1]]))}"
