"""Hears of errors that nobody in the program catches, in whatever thread or process, and keeps those about devices as
findings: what PyTorch, NCCL, Triton or a library refuses in its own words and no rule foresaw.

The program notices nothing: its hooks are called as before, with the same error and the same traceback. What is heard:

  the end of a program or of a rank     the audit event that Python raises before sys.excepthook, whoever replaced it
  a thread, a forgotten task            threading's and asyncio's calls of their hooks; _thread and __del__ by an event
  a future that nobody asks             kept when the error is set, dropped when somebody asks, a finding at the end
  a process of multiprocessing          its finalizers run while the error is under way
  an exit in a `finally`                the error is under way, and no handler has got it; where Python itself ends
                                        the process, it is heard of when the SystemExit goes
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from locus import faults
from locus.after_import import after_import
from locus.watch import reporter

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from locus.watch.session import Session
    from locus.watch.unruled import About


_session: Session = None  # type: ignore[assignment]  # until install()
_kept: set[tuple[str, int]] = set()
"""The lines whose findings were made here: another error of theirs is the same once more."""
_unasked: dict[int, About] = {}
"""What there is to say about the errors of futures that nobody has asked yet, by the future's number."""
_busy = threading.local()
listeners: list[Callable[[BaseException], None]] = []
"""Called with each error that nobody caught."""


def install(session: Session) -> None:
    """Listens from here on, for this check. The hooks are put in place once a process."""
    global _session
    is_first, _session = _session is None, session
    _kept.clear()
    if not is_first:
        return
    sys.addaudithook(_audited)
    _watch_threads()
    after_import("concurrent.futures._base", _watch_futures)
    after_import("multiprocessing.pool", _watch_pools)
    after_import("multiprocessing.util", _watch_processes)
    after_import("asyncio.base_events", _watch_tasks)


def note(error: BaseException | None) -> None:
    """Keeps the finding of an error that nobody caught, if it is about devices. Never raises.

    Locus's own frames are taken out of its traceback: the program prints what it prints without a check.
    """
    if isinstance(error, SystemExit):
        return note_exit(error)  # of a thread, or of a process of multiprocessing
    if error is None or _session is None or getattr(_busy, "now", False):
        return
    _busy.now = True
    try:
        _leave_out_wrappers(error)
        for listener in listeners:
            listener(error)
        found = _about(error)
        if found is not None:
            _keep(found)
    except Exception as fault:
        _fault(fault)
    finally:
        _busy.now = False


def note_exit(under_way: BaseException | None) -> None:
    """The program ends itself, by sys.exit() or os._exit(), while this is under way. An error that no handler has got
    is lost with it: the exit stands in a `finally`, or where a context manager ends."""
    if sys.is_finalizing():
        return  # an old SystemExit that the program had kept
    from locus.watch import unruled

    try:
        while isinstance(under_way, SystemExit):
            under_way = under_way.__context__
        if under_way is not None and not unruled.is_caught(under_way):
            note(under_way)
    except Exception as fault:
        _fault(fault)


def keep_unasked() -> None:
    """The program has ended: errors of futures that nobody has asked for are as good as uncaught."""
    while _unasked and _session is not None:
        try:
            _keep(_unasked.popitem()[1])
        except Exception as fault:
            _fault(fault)


def forget() -> None:
    """Another part of the program begins, or another process."""
    from locus.watch import out_of_memory

    _unasked.clear()
    _kept.clear()
    out_of_memory.forget()


def _about(error: BaseException) -> About | None:
    from locus.watch import unruled

    told = [str(one).partition("\n")[0] for one in unruled.chain(error)]
    if any(_session.bridge.take_kept_error(words) for words in told):
        return None  # its finding was kept before it was raised
    return unruled.about(error)


def _keep(found: About) -> None:
    if found.line not in _kept and _is_known(*found.line):
        return  # a rule was broken there, its finding is kept, and the error came all the same
    _kept.add(found.line)
    step = _session.bridge.steps()
    if found.is_case:
        reporter.add_case({**found.data, "step": step})  # type: ignore[typeddict-item]  # by is_case
    else:
        _session.add_finding({**found.data, "first_step": step})


def _is_known(file: str, line: int) -> bool:
    """Whether there is a finding that was met at this line."""
    return bool(_session.bridge.is_met_at(file, line))


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STAY = tuple(_HERE + name for name in ("surface", "api/simul", "process/simul", "process/runner", "_startup"))
"""What is there without a check, too."""


def _leave_out_wrappers(error: BaseException) -> None:
    """A traceback, and those of the errors behind it, without the functions that a check puts around PyTorch's."""
    from locus.watch import unruled

    for one in unruled.chain(error):
        before, traceback = None, one.__traceback__
        while traceback is not None:
            file = traceback.tb_frame.f_code.co_filename
            if before is not None and file.startswith(_HERE) and not file.startswith(_STAY):
                before.tb_next = traceback.tb_next
            else:
                before = traceback
            traceback = traceback.tb_next


def _fault(fault: Exception) -> None:
    faults.note("an error that nobody caught", fault)


def _audited(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sys.excepthook":
        note(arguments[2])
    elif event == "sys.unraisablehook":
        note(getattr(arguments[1], "exc_value", None))


def _watch_threads() -> None:
    make = getattr(threading, "_make_invoke_excepthook", None)
    if make is None:
        return

    @functools.wraps(make)
    def make_heard() -> object:
        invoke = make()

        def heard(*arguments: object) -> object:
            note(sys.exc_info()[1])
            return invoke(*arguments)

        return heard

    threading._make_invoke_excepthook = make_heard  # type: ignore[attr-defined]


class _Kept:
    """Stands where a future keeps its error, and knows whether somebody has taken it out."""

    def __init__(self, name: str, file: str):
        self._name, self._file = name, file

    def __get__(self, future: object, owner: object = None) -> object:
        if future is None:
            return self
        try:
            value = future.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None
        number = future.__dict__.get(_NUMBER)
        if number in _unasked and self._is_asked(sys._getframe(1)):
            _unasked.pop(number, None)
        return value

    def __set__(self, future: object, value: object) -> None:
        future.__dict__[self._name] = value
        if isinstance(value, BaseException) and _session is not None:
            try:
                found = _about(value)
                if found is not None:  # of the error itself nothing is kept: it would keep tensors alive
                    number = future.__dict__[_NUMBER] = next(_numbers)
                    _unasked[number] = found
            except Exception as fault:
                _fault(fault)

    def _is_asked(self, frame: types.FrameType | None) -> bool:
        """Whether the program gets to see the error: not where the library looks at it for its own sake."""
        while frame is not None and frame.f_code.co_filename == self._file:
            if frame.f_code.co_name in ("wait", "__repr__"):
                return False
            frame = frame.f_back
        return True


_NUMBER = "_locus_number"
_numbers = itertools.count()


def _watch_futures(_base: types.ModuleType) -> None:
    _base.Future._exception = _Kept("_exception", _base.__file__ or "")


def _watch_pools(pool: types.ModuleType) -> None:
    pool.ApplyResult._value = _Kept("_value", pool.__file__ or "")


def _watch_tasks(base_events: types.ModuleType) -> None:
    original = base_events.BaseEventLoop.call_exception_handler

    @functools.wraps(original)
    def call_exception_handler(self: object, context: dict[str, Any]) -> object:
        note(context.get("exception"))
        return original(self, context)

    base_events.BaseEventLoop.call_exception_handler = call_exception_handler


class _Anchor:
    """What multiprocessing's list of things to do in a new process holds on to."""


_anchor = _Anchor()


def _watch_processes(util: types.ModuleType) -> None:
    def listen(_: object = None) -> None:
        util.Finalize(None, _process_ends, exitpriority=100)

    util.register_after_fork(_anchor, listen)  # a new process begins by dropping all finalizers
    listen()


def _process_ends() -> None:
    note(sys.exc_info()[1])
