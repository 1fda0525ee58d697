"""A program that ends without a word: by os._exit(), or by putting another in its own place (os.exec…).

With the first, an error may be lost that is on its way; nothing more is done about it here. With the second would go
what was found, and the exit status would be the other program's: green, whatever was found. So the other program runs
in a process of its own, and this one waits for it, and is nothing else any more: no thread of it runs on, no exit
handler runs. What the other program finds is taken in as that of any process that the program starts.

The number of the process is another one then; that is what the program can see of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NoReturn

from locus.program.end import End
from locus.watch import uncaught

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FOR_BOTH = (signal.SIGINT, signal.SIGQUIT)  # a terminal sends them to all of its processes


def catch_exit(leave: Callable[[int], int]) -> None:
    """os._exit() calls `leave` with its status first, in forks of this process too; what that gives is the status."""
    original = os._exit

    @functools.wraps(original)
    def end(status: int) -> None:
        uncaught.note_exit(sys.exc_info()[1])
        original(leave(status))

    os._exit = end  # type: ignore[assignment]


def catch_exec(
    leave: Callable[[End], NoReturn] | None, in_child: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """os.exec…() in this process runs the other program to its end and then calls `leave`. In a child, one that is
    forked from it or that has no `leave`, it is what it was, inside of `in_child`."""
    replace, replace_with, mine = os.execv, os.execve, os.getpid()

    @functools.wraps(replace)
    def execv(path: str, words: list[str], /) -> None:
        if leave is not None and os.getpid() == mine:
            _run(leave, path, words, os.environ)
            replace(path, words)
        with in_child():
            replace(path, words)

    @functools.wraps(replace_with)
    def execve(path: str | int, argv: list[str], env: Mapping[str, str]) -> None:
        if leave is not None and os.getpid() == mine:
            if not isinstance(path, int):  # an open file has no path to start it by
                _run(leave, path, argv, env)
            replace_with(path, argv, env)
        with in_child():
            replace_with(path, argv, env)

    os.execv, os.execve = execv, execve  # type: ignore[assignment]  # the others of the family call these


def _run(leave: Callable[[End], NoReturn], path: str, words: list[str], environment: Mapping[str, str]) -> None:
    """Comes back where the other program can't be started: then the system's own call has the right error."""
    try:
        process = os.posix_spawn(path, words, environment)
    except (OSError, TypeError, ValueError):
        return
    leave(_end_of(process))


def _end_of(process: int) -> End:
    """Waits for it. The interpreter's lock is kept meanwhile: the threads of a program that was replaced are gone."""
    sys.setswitchinterval(1e6)
    for thread in threading.enumerate():  # they end before their next instruction, where they get the lock again
        if thread is not threading.current_thread() and not thread.name.startswith("locus"):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
    with contextlib.suppress(ValueError):  # not the main thread: the program's handlers stay
        for number in _FOR_BOTH:
            signal.signal(number, signal.SIG_IGN)
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda sent, _: os.kill(process, sent))
    library, status = ctypes.PyDLL(None, use_errno=True), ctypes.c_int()
    while library.waitpid(process, ctypes.byref(status), 0) < 0:
        if ctypes.get_errno() != errno.EINTR:
            return End()
    code = os.waitstatus_to_exitcode(status.value)
    return End(code) if code >= 0 else End.by_signal(-code)
