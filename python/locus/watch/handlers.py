"""Says whether a program means to catch the error of a broken rule: a `try` around the call, pytest.raises, suppress.

A handler around a whole loop is there for other reasons; the check goes on, and the case says who would have caught it.
Reads source only. Without source nothing is known, and the check goes on.
"""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from locus.program import places, source, values
from locus.watch import caught

if TYPE_CHECKING:
    from locus.program.shapes import Location


RAISE = "raise"
GO_ON = "go-on"

_EXPECTING = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp"}
_SUPPRESSING = {"suppress"}
_STARTERS = (os.path.join("_pytest", "runner.py"), os.path.join("locus", "process", "runner.py"))
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
_MAX_CACHED = 4096


class _Catcher(NamedTuple):
    place: Location
    around_loop: bool
    expects: bool
    """It is a test that wants the error, loop or no loop."""


class _Found(NamedTuple):
    catchers: tuple[_Catcher, ...]
    in_loop: bool


# By identity: equal code of two files is one key to a dict. The code is kept, so that its id stays its own.
_cache: dict[tuple[int, int, type], tuple[types.CodeType, _Found]] = {}


_asked: type[BaseException] = RuntimeError
"""The error in question. Asked with the GIL held and answered at once, so that one variable will do."""


def find_handler(
    frame: types.FrameType | None = None, error: type[BaseException] = RuntimeError
) -> tuple[str, Location | None]:
    """("raise", place of the handler) where the program means to catch the error of the call that `frame` is in;
    else ("go-on", the handler that would have got it, or None). Never raises.
    """
    global _asked
    _asked = error
    try:
        frames = list(_inside(places.walk(frame))) if frame is not None else places.frames_here()
        users = [one for one in frames if places.is_user_file(one.f_code.co_filename)]
        users = users or places.user_frames(places.frames_here())
        wanted, catcher = _decide(users)
        if wanted == RAISE and catcher is not None and not catcher.expects and error.__name__ != "OutOfMemoryError":
            caught.note(users[0], catcher.place)
        return wanted, catcher.place if catcher is not None else None
    except Exception:
        return GO_ON, None


def catches(frame: types.FrameType, error: type[BaseException]) -> bool:
    """Whether a handler around the place where a frame is gets an error of this type. Never raises."""
    global _asked
    _asked = error
    try:
        return bool(_look(frame).catchers)
    except Exception:
        return False


def _inside(frames: Iterator[types.FrameType]) -> Iterator[types.FrameType]:
    """Up to what started the program or the test: a handler outside of that is not theirs."""
    for frame in frames:
        if frame.f_code.co_filename.endswith(_STARTERS):
            return
        yield frame


def _decide(frames: list[types.FrameType]) -> tuple[str, _Catcher | None]:
    in_loop = False
    for frame in frames:
        found = _look(frame)
        for catcher in found.catchers:
            goes_on = (in_loop or catcher.around_loop) and not catcher.expects
            return (GO_ON if goes_on else RAISE), catcher
        in_loop = in_loop or found.in_loop
    return GO_ON, None


def _look(frame: types.FrameType) -> _Found:
    key = (id(frame.f_code), frame.f_lasti, _asked)
    if key not in _cache:
        if len(_cache) >= _MAX_CACHED:
            _cache.clear()
        _cache[key] = (frame.f_code, _read(frame))
    return _cache[key][1]


def _read(frame: types.FrameType) -> _Found:
    code = frame.f_code
    source.vouch(code, frame.f_globals)
    file = source.load(code.co_filename)
    scope = file.function_at(code.co_firstlineno, code.co_name) if file is not None else None
    if file is None or scope is None:
        return _Found((), False)
    line, end_line, column, end_column = places.positions(code, frame.f_lasti)
    line = line or frame.f_lineno or 0
    node = file.at(line, end_line, column, end_column)
    position = (line, column if node is not None else -1)
    around = _around(file, scope, node, position)
    catchers: list[_Catcher] = []
    in_loop = False
    if isinstance(node, ast.Call) and len(node.args) > 1 and _expects(node, frame):
        catchers.append(_Catcher(_place(file, node, code), False, True))  # assertRaises(RuntimeError, function)
    for outer, inner in around:
        if isinstance(outer, _LOOPS) and inner in (*outer.body, getattr(outer, "test", None)):
            in_loop = True
        elif isinstance(outer, _TRIES) and inner in outer.body:
            handler = _handler_for(outer, frame)
            if handler is not None:
                catchers.append(_Catcher(_place(file, handler, code), in_loop, False))
        elif isinstance(outer, (ast.With, ast.AsyncWith)) and inner in outer.body:
            for item in reversed(outer.items):
                call = item.context_expr
                if isinstance(call, ast.Call) and (_expects(call, frame) or _suppresses(call, frame)):
                    catchers.append(_Catcher(_place(file, call, code), in_loop, _expects(call, frame)))
    return _Found(tuple(catchers), in_loop)


def _around(
    file: source.Source, scope: ast.AST, node: ast.AST | None, position: tuple[int, int]
) -> list[tuple[ast.AST, ast.AST]]:
    """(statement, the part of it that holds the call) from the inside out, within one function."""
    if node is None:
        statements = [s for s in file.statements_at(position[0]) if _belongs(file, s, scope)]
        node = statements[-1] if statements else None
    if node is None:
        return []
    path, inner = [], node
    for outer in file.ancestors(node):
        path.append((outer, inner))
        if outer is scope:
            break
        inner = outer
    return path


def _belongs(file: source.Source, node: ast.AST, scope: ast.AST) -> bool:
    return next((a for a in file.ancestors(node) if isinstance(a, source.Function)), file.tree) is scope


def _handler_for(statement: ast.Try | ast.TryStar, frame: types.FrameType) -> ast.ExceptHandler | None:
    """The first `except` that gets the error, unless it only passes it on."""
    for handler in statement.handlers:
        if handler.type is None or _matches(handler.type, frame):
            return None if _passes_on(handler) else handler
    return None


def _passes_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if not isinstance(last, ast.Raise) or last.cause is not None:
        return False
    return last.exc is None or (isinstance(last.exc, ast.Name) and last.exc.id == handler.name)


def _matches(node: ast.AST, frame: types.FrameType) -> bool:
    """Whether a class, or one of a tuple of them, catches the error in question."""
    if isinstance(node, ast.Tuple):
        return any(_matches(element, frame) for element in node.elts)
    return _catches(values.evaluate(node, frame))


def _catches(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_catches(element) for element in value)
    return isinstance(value, type) and issubclass(_asked, value) and issubclass(value, BaseException)


def _expects(call: ast.Call, frame: types.FrameType) -> bool:
    return _name(call) in _EXPECTING and _first_matches(call, frame)


def _suppresses(call: ast.Call, frame: types.FrameType) -> bool:
    return _name(call) in _SUPPRESSING and any(_matches(argument, frame) for argument in call.args)


def _first_matches(call: ast.Call, frame: types.FrameType) -> bool:
    named = [k.value for k in call.keywords if k.arg in ("expected_exception", "exception")]
    return any(_matches(argument, frame) for argument in [*call.args[:1], *named])


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _place(file: source.Source, node: ast.expr | ast.stmt | ast.ExceptHandler, code: types.CodeType) -> Location:
    end_line, end_column = node.end_lineno, node.end_col_offset
    if isinstance(node, ast.ExceptHandler):  # its first line, not its body
        end_line, end_column = node.lineno, len(file.line(node.lineno).encode("utf-8"))
    whole = end_line or node.lineno, node.col_offset, end_column or 0
    return places.location(file.file, node.lineno, *whole, places.function_name(code))
