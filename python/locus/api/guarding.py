"""locus.guard(): when PyTorch raises an error about devices, the finding stands under its traceback and on the error.

Costs nothing until an exception is raised. From Python 3.12 on the interpreter tells us of each exception as it is
raised; before that, an exception is explained when somebody asks: at the end of the program, in a traceback that is
printed, or by `error.finding`.
"""

from __future__ import annotations

import collections
import sys
import threading
from typing import TYPE_CHECKING

from locus import faults
from locus._load import library_folders, load_bridge
from locus.errors import UsageError
from locus.process import simulation
from locus.program import places
from locus.watch import error_chain, messages, real, reporter
from locus.watch.messages import Finding

if TYPE_CHECKING:
    import types

    from locus._bridge import Bridge


_ERRORS = (RuntimeError, TypeError, ValueError, BufferError)
"""What PyTorch raises about devices, and NumPy."""

_on = False
_asking = threading.local()


def guard(history: bool = False) -> None:
    """Explains every device error of PyTorch's in this process from here on.

    The finding is added to the exception as a note, so that it is printed with the traceback, and as `error.finding`.

    Args:
        history: also record where every tensor comes from, so that a finding tells the line that made the tensor and
            the lines that moved it. Costs a little on each operator.

    Raises:
        locus.errors.SetupError: Locus does not work with the PyTorch that is installed.
    """
    global _on
    if not isinstance(history, bool):
        raise UsageError(f"guard(history={history!r}) is not known. Use True or False.")
    bridge = load_bridge()
    if simulation.active_options() is None:
        bridge.set_library_folders(library_folders())
    if history:
        record()
    if _on:
        return
    _on = True
    _install_hooks()
    if sys.version_info >= (3, 12):
        _install_monitor()
    else:
        _install_attributes(bridge)


def explain(error: BaseException) -> Finding | None:
    """The finding behind an exception of PyTorch's, or None where it is not about devices. Also puts it there."""
    known = error.__dict__.get("finding")
    return known if known is not None else _attach(error, None)


def record() -> None:
    """From here on, where every tensor comes from is known. The process must have devices."""
    from locus.watch import hooks

    bridge = load_bridge()
    if simulation.active_options() is None:
        real.need_devices("guard(history=True)")
        real.start()
    hooks.install_hooks()
    reporter.watch_threads(bridge)
    bridge.start_recording()


def _attach(error: BaseException, frames: list[types.FrameType] | None) -> Finding | None:
    """Explains an exception once; never raises, never recurses."""
    if getattr(_asking, "now", False) or "_locus_asked" in error.__dict__:
        return error.__dict__.get("finding")
    _asking.now = True
    try:
        if messages.recognize(error) is None:
            return None
        error.__dict__["_locus_asked"] = True
        finding = _carried(error)
        if finding is not None:  # the text stands in the message already
            error.__dict__["finding"] = finding
            return finding
        from locus.watch import explaining

        def explain_it() -> Finding | None:
            _asking.now = True  # on that thread, too
            return explaining.explain(error, frames)

        finding = load_bridge().aside(explain_it)
        if finding is None:
            return None
        error.__dict__["finding"] = finding
        _lately.append(finding)
        # Not add_note(): before 3.11 there is none, and it would ask for the notes that are being made.
        error.__dict__.setdefault("__notes__", []).append("\n" + finding.text)
        return finding
    except Exception as fault:  # PyTorch's own words stand
        faults.note("explaining", fault)
        return None
    finally:
        _asking.now = False


_lately: collections.deque[Finding] = collections.deque(maxlen=16)
"""The last findings: PyTorch raises an error of another thread once more, with the first one's traceback as words."""


def _carried(error: BaseException) -> Finding | None:
    """The finding whose text is in an error's message: that of the error which this one passes on."""
    text = str(error)
    return next((finding for finding in list(_lately) if finding.text in text), None)


def _install_hooks() -> None:
    outer, outer_thread = sys.excepthook, threading.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
        _attach_all(error)
        outer(kind, error, traceback)
        _print_notes(error)

    def thread_excepthook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            _attach_all(arguments.exc_value)
        outer_thread(arguments)

    sys.excepthook, threading.excepthook = excepthook, thread_excepthook


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those behind it: causes, contexts, the members of a group."""
    return error_chain.walk(error, lambda one: (one.__cause__, one.__context__, *getattr(one, "exceptions", ())))


def _attach_all(error: BaseException) -> None:
    for one in _chain(error):
        _attach(one, None)


def _print_notes(error: BaseException) -> None:
    """Python 3.10 prints no notes."""
    if sys.version_info < (3, 11):
        for one in _chain(error):
            for note in one.__dict__.get("__notes__", []):
                print(note, file=sys.stderr)


def _install_monitor() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    tool = next((number for number in (4, 3, 5, 1) if monitoring.get_tool(number) is None), None)
    if tool is None:
        return  # other tools have taken all places; the hooks still explain what nobody catches

    def raised(code: types.CodeType, offset: int, error: BaseException) -> None:
        if not isinstance(error, _ERRORS) or "_locus_asked" in error.__dict__ or getattr(_asking, "now", False):
            return
        if messages.recognize(error) is not None:
            _attach(error, places.frames_here())

    monitoring.use_tool_id(tool, "locus")
    monitoring.register_callback(tool, monitoring.events.RAISE, raised)
    monitoring.set_events(tool, monitoring.events.RAISE)


class _Lazy:
    """An attribute of exceptions that is worked out when it is first asked for. An instance's own comes first."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, error: BaseException | None, owner: type | None = None) -> object:
        if error is not None:
            _attach(error, None)
            if self.name in error.__dict__:
                return error.__dict__[self.name]
        raise AttributeError(
            f"{getattr(owner, '__name__', type(error).__name__)!r} object has no attribute {self.name!r}"
        )


def _install_attributes(bridge: Bridge) -> None:
    for kind in _ERRORS:
        for name in ("finding", "__notes__"):
            bridge.set_type_attribute(kind, name, _Lazy(name))
