"""Source text and its syntax tree: the node at an instruction's columns, the statement and scope around it.

Reads files and trees only; runs nothing. A file that is missing, not Python, not UTF-8 (without saying so), or that
has changed since it was loaded has no source here.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import threading
import time
import tokenize
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from locus.program import edited_texts, text_index
from locus.program.text_index import Index, Placed, Span, span

if TYPE_CHECKING:
    from locus.program.shapes import Edit


Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Scope = (*Function, ast.ClassDef, ast.Module)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

T = TypeVar("T")

_MAX_FILE = 8 << 20
_LONG = 200  # lines of a statement; of a longer one, the block inside it is looked at
_MAX_FILES = 256
_folder = os.getcwd()  # relative names mean this one, also after the program has changed it
_started = time.time()


class Source:
    """One file: its lines as they are on disk, and its tree with parents."""

    def __init__(self, file: str, text: str, editable: bool):
        self.file = file
        self.text = text
        self.editable = editable
        """Whether the lines here are the program's, to the character. Cells of notebooks and `-c` have no file: an edit
        of theirs is for people."""
        self.lines = text.split("\n")
        self.tree = ast.parse(text, file)
        self._bytes = [line.encode("utf-8") for line in self.lines]
        self._index = Index(self.tree)
        self._parents = self._index.parents

    def once(self, make: Callable[[Source], T]) -> T:
        """What `make` says of the file, asked once."""
        return text_index.once(self, make)

    def find(self, scope: ast.AST, *keys: text_index.Key) -> list[ast.AST]:
        """The nodes inside `scope` that have one of these keys (see text_index.py), in the order of ast.walk()."""
        return self._index.find(scope, *keys)

    def calls(self, scope: ast.AST, *names: str) -> list[ast.Call]:
        """The calls inside `scope` of what has one of these names, in the order of ast.walk()."""
        return [node for node in self.find(scope, *(("call", name) for name in names)) if isinstance(node, ast.Call)]

    def line(self, number: int) -> str:
        """The text of a line, from 1; "" where there is none."""
        return self.lines[number - 1].rstrip("\r") if 0 < number <= len(self.lines) else ""

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def segment(self, node: ast.AST) -> str:
        """The node's source, as it is written."""
        return self._cut(span(node))

    def _cut(self, piece: Span) -> str:
        first, last = piece.line - 1, piece.end_line - 1
        if first == last:
            return self._bytes[first][piece.column : piece.end_column].decode("utf-8")
        parts = [self._bytes[first][piece.column :], *self._bytes[first + 1 : last]]
        parts.append(self._bytes[last][: piece.end_column])
        return b"\n".join(parts).decode("utf-8")

    def flat(self, node: ast.AST) -> str:
        """The node's source on one line, for people."""
        text = self.segment(node)
        return ast.unparse(node) if "\n" in text else text

    def at(self, line: int, end_line: int, column: int, end_column: int) -> Placed | None:
        """The node of an instruction with these positions: the operation itself, not the statement around it."""
        if column < 0:
            return None
        same = self._index.ending_at(end_line, end_column)
        exact = [node for node in same if (node.lineno, node.col_offset) == (line, column)]
        if exact:
            return next((n for n in exact if isinstance(n, (ast.expr, ast.AugAssign))), exact[-1])
        # Newer Pythons start a call of a method at the method's name, not at the object.
        calls = [n for n in same if isinstance(n, ast.Call) and (n.lineno, n.col_offset) <= (line, column)]
        return calls[-1] if calls else None

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that `node` belongs to."""
        if isinstance(node, ast.stmt):
            return node
        return next((around for around in self.ancestors(node) if isinstance(around, ast.stmt)), None)

    def statements_at(self, line: int) -> list[ast.stmt]:
        """The statements whose text covers a line, outermost first."""
        return self._index.statements_at(line)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The block that a statement stands in."""
        return self._index.block(statement)

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module whose names `node` sees first."""
        return next((a for a in self.ancestors(node) if isinstance(a, Scope)), self.tree)

    def function_at(self, first_line: int, name: str) -> ast.AST | None:
        """The tree of a code object, by the line where it starts and its name."""
        if name == "<module>":
            return self.tree
        return self._index.function_at(first_line, name)

    def class_named(self, qualified: str) -> ast.ClassDef | None:
        """The tree of a class, by its qualified name."""
        return self._index.class_named(qualified.replace(".<locals>", "").split("."))

    def text_between(self, one: ast.AST, other: ast.AST) -> str:
        """The text between the end of one node and the start of another."""
        return self._cut(Span(*span(one)[2:], *span(other)[:2]))

    def is_parenthesized(self, node: ast.AST) -> bool:
        """Whether an expression stands in parentheses of its own, on its lines."""
        line, column, end_line, end_column = span(node)
        before = self._bytes[line - 1][:column].rstrip()
        after = self._bytes[end_line - 1][end_column:].lstrip()
        if not before.endswith(b"(") or not after.startswith(b")"):
            return False
        parent = self._parents.get(node)
        # The parenthesis before the first argument of a call is the call's, unless there are two.
        is_first = isinstance(parent, ast.Call) and bool(parent.args) and parent.args[0] is node
        return not is_first or before[:-1].rstrip().endswith(b"(")

    def after_parenthesis(self, node: ast.AST, text: str) -> Change:
        """New text after a node, and after the parenthesis around it."""
        change = Change.after(node, text)
        if not self.is_parenthesized(node):
            return change
        rest = self._bytes[change.line - 1][change.column :]
        column = change.column + rest.index(b")") + 1
        return Change(change.line, column, change.line, column, text)

    def edit(self, changes: list[Change], note: str = "") -> Edit | None:
        """An EDIT that makes these changes and no other; None where the file can't be edited so."""
        if not self.editable or not changes:
            return None
        first, last = min(c.line for c in changes), max(c.end_line for c in changes)
        lines = list(self._bytes[first - 1 : last])
        for change in sorted(changes, key=lambda c: (c.line, c.column), reverse=True):
            head = lines[change.line - first][: change.column]
            tail = lines[change.end_line - first][change.end_column :]
            lines[change.line - first : change.end_line - first + 1] = (head + change.text.encode() + tail).split(b"\n")
        old = "\n".join(self.lines[first - 1 : last])
        new = b"\n".join(lines).decode("utf-8")
        return self._checked({"file": self.file, "line": first, "old": old, "new": new, "note": note})

    def insertion(self, line: int, new: str, note: str = "") -> Edit | None:
        """An EDIT that puts a line of its own after `line`."""
        if not self.editable:
            return None
        return self._checked({"file": self.file, "line": line, "old": "", "new": new, "note": note})

    def apply(self, edit: Edit) -> str:
        """The file's text with an edit made."""
        first = edit["line"] if edit["old"] == "" else edit["line"] - 1
        count = 0 if edit["old"] == "" else edit["old"].count("\n") + 1
        return "\n".join([*self.lines[:first], *edit["new"].split("\n"), *self.lines[first + count :]])

    def _checked(self, edit: Edit) -> Edit | None:
        """An edit, if the statements that it changes can still be read; the rest of the file is what it was."""
        is_new = edit["old"] == ""
        first = max(edit["line"], 1)
        last = first + 1 if is_new else first + edit["old"].count("\n")
        start, end, indented = self._index.statements_around(first, last, _LONG, self._begins_line)
        before = self.lines[start - 1 : edit["line"] if is_new else first - 1]
        after = self.lines[edit["line"] if is_new else last : end]
        piece = [*before, edit["new"], *after]
        if indented:  # a block of its own, that goes on behind the piece as it does in the file
            first_text = self.lines[start - 1]
            piece = ["if True:", *piece, first_text[: len(first_text) - len(first_text.lstrip())] + "pass"]
        try:
            ast.parse("\n".join(piece))
        except (SyntaxError, ValueError):
            return None
        return edit if edit["old"] != edit["new"] else None

    def _begins_line(self, statement: ast.stmt) -> bool:
        return not self._bytes[statement.lineno - 1][: statement.col_offset].strip()


class Change(NamedTuple):
    """New text for a piece of a file; columns are bytes of UTF-8."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    @classmethod
    def replace(cls, node: ast.AST, text: str) -> Change:
        return cls(*span(node), text)

    @classmethod
    def before(cls, node: ast.AST, text: str) -> Change:
        return cls(*span(node)[:2] * 2, text)

    @classmethod
    def after(cls, node: ast.AST, text: str) -> Change:
        return cls(*span(node)[2:] * 2, text)


_moment = threading.local()
_files: dict[str, tuple[tuple[float, int], Source | None]] = {}
_vouched: dict[str, tuple[float, int]] = {}
_given: dict[str, tuple[str, frozenset[int]]] = {}
_checked_code: dict[tuple[str, int, str], bool] = {}
_codes_of: dict[str, tuple[tuple[float, int], dict[tuple[int, str], list[types.CodeType]]]] = {}


def path_of(file: str) -> str:
    """The absolute path of a code object's file."""
    return os.path.normpath(os.path.join(_folder, file))


def load(file: str) -> Source | None:
    """The source of a file, or None where there is none that can be trusted."""
    if not file:
        return None
    stamp = _stamp(file)
    if stamp is not None and not _is_unchanged(file, stamp):
        return None
    cached = _files.get(file)
    if cached is not None and (cached[0] == stamp):
        return cached[1]
    if len(_files) >= _MAX_FILES:
        _files.clear()
    result = None
    with contextlib.suppress(SyntaxError, ValueError, OSError, RecursionError, MemoryError, LookupError):
        result = _read(file, stamp)
    _files[file] = (stamp or (0.0, 0), result)
    if stamp is None:
        _files.pop(file)  # a cell or an archive's member: linecache keeps it, and may know more later
    return result


def known_text(file: str) -> str | None:
    """The text of a file as it was when it was last looked at; None where it was not."""
    cached = _files.get(file)
    return cached[1].text if cached is not None and cached[1] is not None else None


def line_text(file: str, line: int) -> str:
    """The text of a line, "" where it is not known."""
    if line <= 0 or not file:
        return ""
    found = load(file)
    if found is not None:
        return found.line(line)
    stamp = _stamp(file)
    if stamp is not None and not _is_unchanged(file, stamp):
        return ""
    try:
        return linecache.getline(file, line).rstrip("\r\n")
    except Exception:
        return ""


def give(text: str, code: types.CodeType) -> None:
    """The text of a program that is in no file: that of `-c`."""
    _given[code.co_filename] = text, frozenset(map(id, _codes(code)))  # the program keeps the code


def vouch(code: types.CodeType, module_globals: dict[str, object] | None = None) -> None:
    """Compares running code with its file, so that a file written after the program began can be trusted too."""
    file = code.co_filename
    if file in _given and id(code) not in _given[file][1]:
        del _given[file]  # exec() calls its code "<string>", too: whose line is meant can't be told any more
    if file.startswith("<") and module_globals is not None:
        return
    stamp = _stamp(file)
    if stamp is None:
        if module_globals is not None and not file.startswith("<"):
            linecache.lazycache(file, module_globals)  # a member of a zip file
        return
    if stamp[0] < _started or _vouched.get(file) == stamp:
        return
    key = (file, code.co_firstlineno, code.co_name)
    if key in _checked_code:
        return
    if len(_checked_code) > 4096:
        _checked_code.clear()
    _checked_code[key] = True
    if any(_same_code(code, other) for other in _compiled(file, stamp).get(key[1:], ())):
        _vouched[file] = stamp


def _compiled(file: str, stamp: tuple[float, int]) -> dict[tuple[int, str], list[types.CodeType]]:
    """The code of a file as it is now, by first line and name; {} where it is no program."""
    kept = _codes_of.get(file)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    found: dict[tuple[int, str], list[types.CodeType]] = {}
    with contextlib.suppress(SyntaxError, ValueError, OSError, RecursionError):
        with open(path_of(file), "rb") as opened:
            whole = compile(opened.read(), file, "exec", dont_inherit=True)
        for code in _codes(whole):
            found.setdefault((code.co_firstlineno, code.co_name), []).append(code)
    if len(_codes_of) >= _MAX_FILES:
        _codes_of.clear()
    _codes_of[file] = stamp, found
    return found


def _same_code(one: types.CodeType, other: types.CodeType) -> bool:
    same_place = one.co_firstlineno == other.co_firstlineno and one.co_name == other.co_name
    return same_place and one.co_code == other.co_code and one.co_linetable == other.co_linetable


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@contextlib.contextmanager
def at_one_moment() -> Iterator[None]:
    """What is read in here of files is read as of one moment: each is asked once whether it has changed."""
    is_outermost = getattr(_moment, "stamps", None) is None
    if is_outermost:
        _moment.stamps = {}
    try:
        yield
    finally:
        if is_outermost:
            _moment.stamps = None


def _stamp(file: str) -> tuple[float, int] | None:
    stamps: dict[str, tuple[float, int] | None] | None = getattr(_moment, "stamps", None)
    if stamps is None:
        return _read_stamp(file)
    if file not in stamps:
        stamps[file] = _read_stamp(file)
    return stamps[file]


def _read_stamp(file: str) -> tuple[float, int] | None:
    edited = edited_texts.text_of(path_of(file))
    if edited is not None:
        return 0.0, len(edited)
    try:
        status = os.stat(path_of(file))
    except (OSError, ValueError):
        return None
    return status.st_mtime, status.st_size


def _is_unchanged(file: str, stamp: tuple[float, int]) -> bool:
    return stamp[0] < _started or _vouched.get(file) == stamp


def _read(file: str, stamp: tuple[float, int] | None) -> Source | None:
    if stamp is None:
        text = _given[file][0] if file in _given else "".join(linecache.getlines(file))
        return Source(file, text, editable=True) if text else None
    if stamp[1] > _MAX_FILE:
        return None
    raw = edited_texts.text_of(path_of(file))
    if raw is None:
        with open(path_of(file), "rb") as opened:
            raw = opened.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    text = raw.decode(encoding)
    # An edit is written in the file's own encoding. A lone carriage return is a line's end for Python, not for others.
    faithful = text.encode(encoding) == raw and "\r" not in text.replace("\r\n", "\n")
    return Source(file, text.replace("\r\n", "\n"), editable=faithful)
