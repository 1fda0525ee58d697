"""Edits of a report, put together: merged where they touch the same lines, made in a file's own encoding and line ends,
shown as a unified diff, written to disk with a backup.

Knows texts and edits; nothing of programs or devices.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shutil
import tempfile
import tokenize
from dataclasses import dataclass, field
from typing import NamedTuple

from locus.errors import UsageError

_TOKEN = re.compile(r"\r?\n|\w+|[^\S\n]+|.", re.DOTALL)


@dataclass(frozen=True)
class Edit:
    """Another text for lines of a file; where `old` is empty, lines of their own after `line`."""

    file: str
    line: int
    old: str
    new: str
    note: str = field(default="", compare=False)
    kind: str = field(default="", compare=False)
    """What it does, in the words of locus/engine/blame; "" where nobody has said."""

    @property
    def lines(self) -> range:
        """The lines that it changes, in the text as it was."""
        return range(self.line, self.line + self.old.count("\n") + 1)


class Change(NamedTuple):
    """New text for a range of characters."""

    start: int
    end: int
    text: str
    is_line: bool = False
    """A line of its own; several of them can stand at one place."""


class Text:
    """A file's text, with what is needed to write it back as it was."""

    def __init__(self, path: str, raw: bytes):
        self.path, self.raw = path, raw
        self.encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        self.text = raw.decode(self.encoding)
        self.starts = [0]
        for match in re.finditer("\n", self.text):
            self.starts.append(match.end())
        self.newline = "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"

    @classmethod
    def read(cls, path: str) -> Text:
        with open(path, "rb") as file:
            return cls(path, file.read())

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding)

    def changes(self, edit: Edit) -> list[Change] | None:
        """What an edit changes, to the word; None where the file has another text than the edit knows."""
        new = edit.new.replace("\r\n", "\n").replace("\n", self.newline)
        if edit.old == "":
            return self._insertion(edit.line, new)
        old = edit.old.split("\n")
        first, last = edit.line - 1, edit.line + len(old) - 2
        if not 0 <= first <= last < len(self.starts):
            return None
        start, end = self.starts[first], self._end(last)
        segment = self.text[start:end]
        if segment.replace("\r\n", "\n") != edit.old:
            return None
        before, after = _TOKEN.findall(segment), _TOKEN.findall(new)
        places = [start]
        for token in before:
            places.append(places[-1] + len(token))
        match = difflib.SequenceMatcher(None, _alike(before), _alike(after), autojunk=False)
        return [
            Change(places[a], places[b], "".join(after[c:d]))
            for what, a, b, c, d in match.get_opcodes()
            if what != "equal"
        ]

    def _insertion(self, line: int, new: str) -> list[Change] | None:
        if not 0 <= line <= len(self.starts):
            return None
        if line == 0:
            return [Change(0, 0, new + self.newline)]
        end = self._end(line - 1)
        return [Change(end, end, self.newline + new, True)]

    def _end(self, line: int) -> int:
        """Where a line (from 0) ends, without its line end."""
        if line + 1 >= len(self.starts):
            return len(self.text)
        end = self.starts[line + 1] - 1
        return end - 1 if self.text[end - 1 : end] == "\r" else end


def _alike(tokens: list[str]) -> list[str]:
    return ["\n" if token == "\r\n" else token for token in tokens]


class Merged(NamedTuple):
    """Edits that were made together."""

    texts: dict[str, bytes]
    """The new texts, by path."""
    made: list[Edit]
    postponed: list[Edit]
    """Edits that meet another one at the same words, or that are for another text."""


def merge(edits: list[Edit], files: dict[str, Text]) -> Merged:
    """Makes as many of the edits as go together, the first ones first. `files` is by path."""
    taken: dict[str, list[Change]] = {}
    made: list[Edit] = []
    postponed: list[Edit] = []
    for edit in edits:
        file = files.get(edit.file)
        changes = file.changes(edit) if file is not None else None
        mine = taken.setdefault(edit.file, [])
        new = None if changes is None else [change for change in changes if change not in mine]
        if new is None or any(_collide(one, other) for one in new for other in mine):
            postponed.append(edit)
            continue
        mine += new
        made.append(edit)
    texts = {}
    for path, changes in taken.items():
        if not changes:
            continue
        file = files[path]
        text = file.text
        # From the end on; lines at one place are taken in their order.
        for change in sorted(reversed(changes), key=lambda c: (c.start, c.end, c.is_line), reverse=True):
            text = text[: change.start] + change.text + text[change.end :]
        try:
            raw = file.encode(text)
            compile(raw, path, "exec", dont_inherit=True, flags=0x400)  # the tree only
        except (SyntaxError, ValueError):
            broken = [edit for edit in made if edit.file == path]
            made = [edit for edit in made if edit.file != path]
            if len(broken) > 1:  # together they make no sense; the first alone does
                alone = merge(broken[:1], files)
                texts.update(alone.texts)
                made += alone.made
                postponed += broken[1:]
            else:
                postponed += broken
            continue
        texts[path] = raw
    return Merged(texts, made, postponed)


def _collide(one: Change, other: Change) -> bool:
    if one.is_line or other.is_line:
        # A new line comes after whatever its line has become.
        point, change = (one.start, other) if one.is_line else (other.start, one)
        return change.start < point < change.end
    return one.start <= other.end and other.start <= one.end


def original_line(old: bytes, new: bytes, line: int) -> int:
    """The line of the old text that a line of the new one comes from; for a line that is new, the one before it."""
    a, b = old.split(b"\n"), new.split(b"\n")
    for what, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if b1 <= line - 1 < b2:
            if what == "insert":
                return a1
            return min(a1 + (line - 1 - b1), a2 - 1) + 1
    return line


def hunks(file: Text, new: bytes) -> list[Edit]:
    """What a new text changes, as edits of whole lines."""
    old_lines = file.text.replace("\r\n", "\n").split("\n")
    new_lines = new.decode(file.encoding).replace("\r\n", "\n").split("\n")
    found = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if what != "equal":
            line = a if what == "insert" else a + 1
            old, text = "\n".join(old_lines[a:b]), "\n".join(new_lines[c:d])
            found.append(Edit(file.path, line, old, text))
    return found


def covers(hunk: Edit, line: int) -> bool:
    """Whether an edit at this line has become part of the hunk."""
    count = hunk.old.count("\n") + 1 if hunk.old else 0
    return hunk.line <= line < hunk.line + max(count, 1) or (count > 0 and line == hunk.line + count - 1)


def diff(files: dict[str, Text], texts: dict[str, bytes], folder: str) -> bytes:
    """A unified diff that `git apply` and `patch -p1` take, each file in its own encoding."""
    out = b""
    for path in sorted(texts):
        file = files[path]
        inside = os.path.relpath(path, folder)
        name = inside if not inside.startswith("..") else path.lstrip(os.sep)
        old, new = _lines(file.text), _lines(texts[path].decode(file.encoding))
        body = ""
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"):
            body += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        out += body.encode(file.encoding.replace("utf-8-sig", "utf-8"))
    return out


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def write(files: dict[str, Text], texts: dict[str, bytes]) -> list[tuple[str, str]]:
    """Writes the texts to disk, all or none; (file, backup) of each. Refuses files that are not what they were."""
    targets = {path: os.path.realpath(path) for path in texts}
    for path, target in targets.items():
        try:
            with open(target, "rb") as opened:
                now = opened.read()
        except OSError as error:
            raise UsageError(f"{path} can't be read any more: {error.strerror}. Nothing was written.") from None
        if now != files[path].raw:
            raise UsageError(f"{path} has changed since the program ran. Nothing was written; run `locus fix` again.")
        for thing in (target, os.path.dirname(target)):
            if not os.access(thing, os.W_OK):
                raise UsageError(f"{thing} can't be written. Nothing was written; check its permissions.")
    done: list[tuple[str, str]] = []
    try:
        for path, raw in texts.items():
            backup = _backup(targets[path])
            done.append((path, backup))
            _replace(targets[path], raw)
    except OSError as error:
        for path, backup in done:
            with contextlib.suppress(OSError):
                os.replace(backup, targets[path])
        raise UsageError(f"{error.filename or path} can't be written: {error.strerror}. Nothing was changed.") from None
    return done


def _backup(path: str) -> str:
    """A copy beside the file, under a name that is free."""
    number = 0
    while True:
        name = f"{path}.orig" if number == 0 else f"{path}.orig{number}"
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            number += 1
            continue
        shutil.copy2(path, name)
        return name


def _replace(path: str, raw: bytes) -> None:
    """The new text takes the place of the old one in one step, with its permissions."""
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".locus-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        shutil.copymode(path, name)
        with contextlib.suppress(OSError):
            status = os.stat(path)
            os.chown(name, status.st_uid, status.st_gid)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
