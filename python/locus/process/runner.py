"""Runs a script, a module or code in this process as `python` itself would: the same `__main__`, arguments and path,
the same exit codes and tracebacks. Knows nothing of devices.
"""

from __future__ import annotations

import ast
import asyncio
import atexit
import builtins
import contextlib
import importlib.machinery
import importlib.util
import inspect
import io
import json
import os
import runpy
import signal
import sys
import threading
import traceback
import types
import zipfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from locus.errors import UsageError
from locus.process import cell_shell, files, notebooks
from locus.program import edited_texts, source
from locus.program.end import End

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Target(NamedTuple):
    """What to run: a "script" (file, folder or zip file), a "module", "code" or a "notebook", and its arguments."""

    kind: str
    name: str
    arguments: list[str]


def run(target: Target, explain: Callable[[BaseException], None] | None = None) -> int:
    """Runs the target as `__main__`; its exit code. SystemExit is let through, for Python to deal with. `explain` hears
    of an error that ended the program, when it has been shown."""
    execute = _prepare(target)
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        _show(error, target)
        if explain is not None:
            explain(error)
        return End.by_error(error).exit
    return 0


def run_to_end(target: Target, ends_quietly: type[BaseException], hear_exit: Callable[[BaseException], None]) -> End:
    """The same, for a caller who has something to do at the end: also SystemExit is dealt with as Python would.

    An exception of type `ends_quietly` ends the program as if it had come to its end; `hear_exit` hears of SystemExit.
    """
    execute = _prepare(target)
    try:
        execute()
    except SystemExit as stop:
        hear_exit(stop)
        return End(_exit_code(stop))
    except ends_quietly:
        return End()
    except BaseException as error:
        _show(error, target)
        return End.by_error(error)
    return End()


def wind_down(end: End, seconds: float | None = None) -> End:
    """What Python does after the last line of a program: threads come to their end, exit handlers run, among them the
    one that waits for processes. What they do belongs to the program. A TimeoutError where that takes longer."""
    with _alarm(seconds):
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        except KeyboardInterrupt as error:
            _show(error)
            return End.by_error(error)
    return end


class _TooLong(BaseException):
    pass


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """A TimeoutError when the main thread is still in here by then. By a signal, which wakes it from any wait; one
    that nobody else uses."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    number, done, rang = signal.SIGRTMAX, threading.Event(), False
    hook = sys.unraisablehook

    def ring() -> None:
        while not done.wait(seconds):
            signal.pthread_kill(threading.main_thread().ident, number)  # type: ignore[arg-type]  # it has begun

    def raise_it(*_: object) -> None:
        nonlocal rang
        rang = True
        if not done.is_set():
            raise _TooLong

    def hide(unraisable: sys.UnraisableHookArgs) -> None:  # an exit handler that is cut off is no fault of the program
        if unraisable.exc_type is not _TooLong:
            hook(unraisable)

    before = signal.signal(number, raise_it)
    sys.unraisablehook = hide
    threading.Thread(target=ring, name="locus-alarm", daemon=True).start()
    try:
        yield
    except _TooLong:
        pass
    finally:
        done.set()
        sys.unraisablehook = hook
        signal.signal(number, before)
    if rang:
        raise TimeoutError


def check_program(target: Target) -> None:
    """A UsageError where a script is certainly no program, although Python might run it: JSON is an expression."""
    if target.kind != "script" or os.path.isdir(target.name):
        return
    with contextlib.suppress(OSError):
        with io.open_code(os.path.abspath(target.name)) as file:
            _refuse_other_files(target.name, file.read())


def _prepare(target: Target) -> Callable[[], object]:
    kinds = {
        "script": _prepare_script, "module": _prepare_module, "code": _prepare_code, "notebook": _prepare_notebook,
    }  # fmt: skip
    return kinds[target.kind](target)


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _refuse_other_files(path: str, text: bytes) -> None:
    if b"\0" in text:
        raise UsageError(f"{path} is not a Python program: it has bytes that are no text. Give a script.")
    if not text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        return
    try:
        data = json.loads(text)
    except ValueError:
        return
    if isinstance(data, dict) and "cells" in data:
        raise UsageError(f"{path} is a notebook, not a Python program. Give it a name that ends with .ipynb.")
    raise UsageError(f"{path} is not a Python program: it is JSON. Give a script.")


def _prepare_script(target: Target) -> Callable[[], object]:
    path = target.name
    if os.path.isdir(path) or _is_importable_archive(path):
        return _prepare_folder(target)
    try:
        source = edited_texts.text_of(path)
        if source is None:
            with io.open_code(os.path.abspath(path)) as file:
                source = file.read()
    except OSError as error:
        raise UsageError(files.cannot_open("script", path, error)) from None
    _refuse_other_files(path, source)
    _set_arguments(path, target.arguments)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    main = _new_main()
    main.__file__ = full = os.path.abspath(path)
    main.__dict__["__cached__"] = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
    return lambda: exec(compile(source, full, "exec", dont_inherit=True), main.__dict__)


def _prepare_folder(target: Target) -> Callable[[], object]:
    _set_arguments(target.name, target.arguments)
    folder = os.path.abspath(target.name)
    if _has_launcher_path():
        sys.path.pop(0)
    sys.path.insert(0, folder)
    if importlib.machinery.PathFinder.find_spec("__main__", [folder]) is None:
        raise UsageError(f"can't find '__main__' module in {target.name!r}. Give the script inside it.")
    _new_main()
    return lambda: runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


def _prepare_module(target: Target) -> Callable[[], object]:
    _set_arguments("-m", target.arguments)
    _set_first_path(os.getcwd())
    if not _module_exists(target.name):
        raise UsageError(f"no module named {target.name!r} can be found. Check its name and the current folder.")
    _new_main()
    # What `python -m` itself calls: keeps __spec__, so that processes started by spawn find the module again.
    return lambda: runpy._run_module_as_main(target.name, alter_argv=True)  # type: ignore[attr-defined]


def _prepare_code(target: Target) -> Callable[[], object]:
    _set_arguments("-c", target.arguments)
    _set_first_path("")
    main = _new_main()
    main.__loader__ = importlib.machinery.BuiltinImporter

    def execute() -> None:
        code = compile(target.name, "<string>", "exec", dont_inherit=True)
        source.give(target.name, code)
        exec(code, main.__dict__)

    return execute


def _prepare_notebook(target: Target) -> Callable[[], object]:
    """Its cells, in order, as one script."""
    book = notebooks.opened(target.name)
    _set_arguments(target.name, target.arguments)
    _set_first_path(os.path.dirname(os.path.realpath(target.name)))
    os.environ.setdefault("MPLBACKEND", "Agg")  # nobody looks at the plots
    main = _new_main()
    shell = cell_shell.Shell(book.leave_out)
    main.__dict__.update({"display": print, "get_ipython": lambda: shell})

    def execute() -> None:
        text = edited_texts.text_of(book.script)
        code = compile(book.code if text is None else text, book.script, "exec", _AWAITS, dont_inherit=True)
        result = eval(code, main.__dict__)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(result)

    return execute


_AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


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
    if "__mp_main__" in sys.modules:  # by this name multiprocessing knows classes that come from a spawned child
        sys.modules["__mp_main__"] = main
    return main


def _show(error: BaseException, target: Target | None = None) -> None:
    """Prints an uncaught exception as Python would, without the frames that brought the program to life; that of a
    notebook with its cells."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    error.__traceback__ = frames
    sys.audit("sys.excepthook", sys.excepthook, type(error), error, frames)  # as the interpreter does
    if target is None or target.kind != "notebook" or sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, frames)
        return
    with contextlib.suppress(OSError, ValueError):  # nobody reads it
        text = "".join(traceback.format_exception(error))
        print(notebooks.opened(target.name).name_frames(text), end="", file=sys.stderr, flush=True)
