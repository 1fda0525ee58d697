"""Runs a script, a module or code in this process as `python` itself would: the same `__main__`, arguments and path,
the same exit codes and tracebacks. Knows nothing of devices.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from locus import overlay, source
from locus.errors import UsageError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""


class Target(NamedTuple):
    """What to run: a "script" (file, folder or zip file), a "module" or "code", and its arguments."""

    kind: str
    name: str
    arguments: list[str]


def run(target: Target, ends_quietly: type[BaseException] | tuple[()] = ()) -> int:
    """Runs the target as `__main__`; its exit code. SystemExit is let through, for Python to deal with.

    An exception of type `ends_quietly` ends the program as if it had come to its end.
    """
    execute = {"script": _prepare_script, "module": _prepare_module, "code": _prepare_code}[target.kind](target)
    try:
        execute()
    except SystemExit:
        raise
    except ends_quietly:
        return 0
    except BaseException as error:
        _show(error)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _prepare_script(target: Target) -> Callable[[], Any]:
    path = target.name
    if os.path.isdir(path) or _is_importable_archive(path):
        return _prepare_folder(target)
    try:
        source = overlay.text_of(path)
        if source is None:
            with io.open_code(os.path.abspath(path)) as file:
                source = file.read()
    except OSError as error:
        raise UsageError(
            f"can't open the script {path!r}: {error.strerror}. Check its name and the current folder."
        ) from None
    _set_arguments(path, target.arguments)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _new_main()
    main.__file__ = os.path.abspath(path)
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
    return lambda: exec(compile(source, main.__file__, "exec", dont_inherit=True), main.__dict__)


def _prepare_folder(target: Target) -> Callable[[], Any]:
    _set_arguments(target.name, target.arguments)
    folder = os.path.abspath(target.name)
    if _has_launcher_path():
        sys.path.pop(0)
    sys.path.insert(0, folder)
    if importlib.machinery.PathFinder.find_spec("__main__", [folder]) is None:
        raise UsageError(f"can't find '__main__' module in {target.name!r}. Give the script inside it.")
    _new_main()
    return lambda: runpy._run_module_as_main("__main__", alter_argv=False)


def _prepare_module(target: Target) -> Callable[[], Any]:
    _set_arguments("-m", target.arguments)
    _set_first_path(os.getcwd())
    if not _module_exists(target.name):
        raise UsageError(f"no module named {target.name!r} can be found. Check its name and the current folder.")
    _new_main()
    # What `python -m` itself calls: keeps __spec__, so that processes started by spawn find the module again.
    return lambda: runpy._run_module_as_main(target.name, alter_argv=True)


def _prepare_code(target: Target) -> Callable[[], Any]:
    _set_arguments("-c", target.arguments)
    _set_first_path("")
    main = _new_main()
    main.__loader__ = importlib.machinery.BuiltinImporter

    def execute() -> None:
        code = compile(target.name, "<string>", "exec", dont_inherit=True)
        source.give(target.name, code)
        exec(code, main.__dict__)

    return execute


def _module_exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        return not f"{name}.".startswith(f"{error.name}.")
    except Exception:
        return True  # a parent that can't be imported: the run itself will show what is wrong with it


def _is_importable_archive(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    import zipfile

    return not path.endswith(".py") and zipfile.is_zipfile(path)


def _set_arguments(name: str, arguments: list[str]) -> None:
    sys.argv[:] = [name, *arguments]


def _has_launcher_path() -> bool:
    """Whether sys.path begins with the folder of Locus's own launcher (not where Python was told to add none)."""
    return not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated


def _set_first_path(folder: str) -> None:
    if _has_launcher_path():
        sys.path[0] = folder


_launcher: types.ModuleType | None = None


def _new_main() -> types.ModuleType:
    global _launcher
    _launcher = sys.modules["__main__"]  # kept alive: its globals are cleared when it goes
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, "__spec__": None, "__package__": None, "__annotations__": {}})
    sys.modules["__main__"] = main
    return main


def _show(error: BaseException) -> None:
    """Prints an uncaught exception as Python would, without the frames that brought the program to life."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        traceback = traceback.tb_next
    error.__traceback__ = traceback
    sys.audit("sys.excepthook", sys.excepthook, type(error), error, traceback)  # as the interpreter does
    sys.excepthook(type(error), error, traceback)
