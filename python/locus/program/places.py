"""Which frames are the program's own, and where they are: file, line, columns, function, text.

Reads code objects and live frames. Knows no tensors, and never fails: what is not known is 0, -1 or "".
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Iterator

from locus.program import source
from locus.program.shapes import Edit, Location

MAX_STACK = 8
"""The most user frames that a case carries."""

_LOCUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_RUNNER = os.path.join(_LOCUS, "process", "runner.py")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_PYTEST_ENTRY = ("<frozen ", "<__array_function__", "<eval_with_key>")


@functools.cache
def _standard_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths.get("stdlib"), paths.get("platstdlib"), os.path.dirname(os.__file__)}
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in folders if folder)


@functools.cache
def _torch_folder() -> str:
    module = sys.modules.get("torch")
    file = getattr(module, "__file__", None)
    return os.path.join(os.path.dirname(os.path.abspath(file)), "") if file else "\0"


@functools.lru_cache(maxsize=4096)
def kind_of_file(file: str) -> str:
    """ "user", "torch", "locus", "standard" or "installed"."""
    if file.startswith(_PYTEST_ENTRY):
        return "standard"
    if file.startswith("<"):
        return "user"  # exec, -c, standard input, a notebook's cell
    path = os.path.abspath(file)
    if path.startswith(_LOCUS):
        return "locus"
    if path.startswith(_torch_folder()):
        return "torch"
    if any(part in path for part in _INSTALLED):
        return "installed"
    if path.startswith(_standard_folders()):
        return "standard"
    return "user"


def is_user_file(file: str) -> bool:
    """Whether this is the program's own code: not PyTorch, Locus, the standard library or an installed package."""
    return kind_of_file(file) == "user"


def is_internal(holder: object, name: str) -> bool:
    """Whether an attribute is what an installed library keeps for itself: nobody calls anything by a way through it."""
    return name.startswith("_") and _is_installed(type(holder).__module__)


@functools.lru_cache(maxsize=1024)
def _is_installed(module: object) -> bool:
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    return isinstance(file, str) and kind_of_file(file) == "installed"


def node_location(file: source.Source, node: ast.expr | ast.stmt) -> Location:
    """Where a piece of the program's text is."""
    end = node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0
    return location(file.file, node.lineno, *end, getattr(file.scope(node), "name", ""))


def walk(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """`frame` and its callers, innermost first, down to where Locus itself started the program."""
    while frame is not None and frame.f_code.co_filename != _RUNNER:
        yield frame
        frame = frame.f_back


_alone = threading.local()


@contextlib.contextmanager
def alone(is_alone: bool) -> Iterator[None]:
    """No frame of the program's led to what happens in here."""
    _alone.now = is_alone
    try:
        yield
    finally:
        _alone.now = False


def is_alone() -> bool:
    """Whether what happens now is Locus's own doing, wherever the program is."""
    return bool(getattr(_alone, "now", False))


class _Standing(threading.local):
    """Whose place a thread of Locus's own speaks of."""

    frame: types.FrameType | None = None
    thread = 0


_standing = _Standing()


@contextlib.contextmanager
def standing_at(frame: types.FrameType | None, thread: int) -> Iterator[None]:
    """What is asked in here is asked for another thread, which waits at `frame`."""
    before = _standing.frame, _standing.thread
    _standing.frame, _standing.thread = frame, thread
    try:
        yield
    finally:
        _standing.frame, _standing.thread = before


def frames_here() -> list[types.FrameType]:
    """The frames that led to this operation, innermost first, without Locus's own.

    Autograd runs backward passes of devices on threads that have no Python frames: then those of the thread that
    waits in backward(), or else the main thread's. A thread that an extension started has none: what the others do at
    the time has nothing to do with it.
    """
    if is_alone():
        return []
    here = _standing.thread or threading.get_ident()
    top = _standing.frame if _standing.thread else sys._getframe(1)
    own = [frame for frame in walk(top) if kind_of_file(frame.f_code.co_filename) != "locus"]
    if any(is_user_file(frame.f_code.co_filename) for frame in own):
        return own
    mine = (here, threading.get_ident())
    others = [list(walk(frame)) for ident, frame in sys._current_frames().items() if ident not in mine]
    main = threading.main_thread().ident

    def waits_in_backward(frames: list[types.FrameType]) -> bool:
        return any(frame.f_code.co_name == "_engine_run_backward" for frame in frames)

    chosen = next((frames for frames in others if waits_in_backward(frames)), None)
    if chosen is None and here != main and main is not None:
        chosen = list(walk(sys._current_frames().get(main)))
    return own + [frame for frame in chosen or [] if kind_of_file(frame.f_code.co_filename) != "locus"]


def user_frames(frames: list[types.FrameType]) -> list[types.FrameType]:
    """The program's own among `frames`; where there are none, what is neither PyTorch, Locus nor Python itself."""
    mine = [frame for frame in frames if is_user_file(frame.f_code.co_filename)]
    return mine or [frame for frame in frames if kind_of_file(frame.f_code.co_filename) == "installed"]


_REPLICAS = os.path.join("nn", "parallel", "parallel_apply.py")


def in_replica(frames: Iterable[types.FrameType]) -> bool:
    """Whether these frames are in one of DataParallel's replicas."""
    return any(frame.f_code.co_filename.endswith(_REPLICAS) for frame in frames)


def positions(code: types.CodeType, instruction: int) -> tuple[int, int, int, int]:
    """(line, end line, column, end column) of an instruction; columns are bytes of UTF-8, -1 where unknown."""
    if instruction < 0:
        return code.co_firstlineno, code.co_firstlineno, -1, -1
    if hasattr(code, "co_positions"):
        known = _positions_of(code)
        line, end_line, column, end_column = (
            known[instruction // 2] if instruction // 2 < len(known) else (None, None, None, None)
        )
        if line is not None:
            if column is None or end_column is None or end_line is None:
                return line, line, -1, -1
            return line, end_line, column, end_column
    line = 0
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return line, line, -1, -1


_MAX_CODES = 64
_Position = tuple[int | None, int | None, int | None, int | None]
_known_positions: dict[int, tuple[types.CodeType, list[_Position]]] = {}


def _positions_of(code: types.CodeType) -> list[_Position]:
    """The positions of all instructions; Python itself counts them off from the first, each time it is asked."""
    known = _known_positions.get(id(code))
    if known is None:
        if len(_known_positions) >= _MAX_CODES:
            _known_positions.clear()
        known = _known_positions[id(code)] = code, list(code.co_positions())  # the code is kept: so is its id
    return known[1]


def edit_location(edit: Edit) -> Location:
    """The LOC of an edit; of an inserted line, that of the line before it."""
    return location(edit["file"], edit["line"], edit["line"], -1, -1, "", edit["old"].partition("\n")[0])


def location(
    file: str, line: int, end_line: int, column: int, end_column: int, function: str, text: str | None = None
) -> Location:
    """A LOC; columns come as bytes of UTF-8 and leave as characters."""
    if text is None:
        text = source.line_text(file, line)
    last = text if end_line == line else source.line_text(file, end_line)
    return {
        "file": file,
        "line": max(line, 0),
        "column": _characters(text, column),
        "end_line": max(end_line, line, 0),
        "end_column": _characters(last, end_column),
        "function": function,
        "text": text,
    }


def unknown_location() -> Location:
    """A LOC that says that nothing is known."""
    return location("", 0, 0, 0, 0, "", "")


def frame_location(frame: types.FrameType) -> Location:
    """Where a live frame is."""
    code = frame.f_code
    source.vouch(code, frame.f_globals)
    line, end_line, column, end_column = positions(code, frame.f_lasti)
    if not line:
        line = end_line = frame.f_lineno or 0
    return location(code.co_filename, line, end_line, column, end_column, function_name(code))


def function_name(code: types.CodeType) -> str:
    """The function's name with its classes; a comprehension is part of the function that it stands in."""
    return plain_name(getattr(code, "co_qualname", code.co_name))


def plain_name(qualified: str) -> str:
    """The name of a function as a person would say it: `Net.forward` of Net.forward.<locals>.<listcomp>."""
    parts = qualified.replace(".<locals>", "").split(".")
    while len(parts) > 1 and parts[-1] in _COMPREHENSIONS:
        parts.pop()
    return ".".join(parts)


_COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}


def _characters(text: str, column: int) -> int:
    if column <= 0:
        return 0
    if text.isascii() or not text:
        return column
    return len(text.encode("utf-8")[:column].decode("utf-8", "replace"))


def release_locals(frames: list[types.FrameType]) -> None:
    """Empties the snapshots that reading f_locals leaves in frames, for they would keep the tensors in them alive.

    From Python 3.13 on there is no snapshot. One that the program holds itself, from locals(), is left alone.
    """
    if sys.version_info >= (3, 13):
        return
    for frame in frames:
        if frame.f_code.co_flags & 0x1:  # CO_OPTIMIZED: a function's, where f_locals is not the namespace itself
            snapshot = frame.f_locals
            if sys.getrefcount(snapshot) <= 3:  # the frame's, ours and the call's
                snapshot.clear()
