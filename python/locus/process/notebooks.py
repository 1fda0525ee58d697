"""Notebooks as programs: their code cells, in order, are one script, so that everything that can be said and done about
a script (lines, origins, fixes, runs with fixes) holds for cells too.

What IPython alone understands (`%magics`, `!commands`) is left out, line for line, and said. Reports speak of cells:
`train.ipynb:cell 3`. Fixes are written back into the notebook by nbformat; outputs stay.
"""

from __future__ import annotations

import copy
import difflib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

from locus import scratch
from locus.errors import UsageError
from locus.process import files, reports

if TYPE_CHECKING:
    from locus._bridge import Report

SUFFIX = ".ipynb"
_LEFT_OUT = "pass  # "
_BODY_RUNS = ("time", "timeit", "capture", "prun", "locus")
"""Cell magics whose body is the program's own code."""


class Cell(NamedTuple):
    """A code cell that has any code."""

    number: int
    """As in `In[3]` after all cells were run in order."""
    position: int
    """Among all cells of the notebook."""
    first: int
    """Its first line in the script, from 1."""
    text: str
    """As the notebook has it."""

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


class Notebook:
    """A notebook whose cells are a script, in a folder that goes with close()."""

    def __init__(self, path: str):
        self.path, self._given = os.path.abspath(path), path
        self.left_out: list[str] = []
        try:
            with open(self.path, encoding="utf-8") as file:
                self._data = json.load(file)
            cells = self._data["cells"]
            if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
                raise TypeError
            language = (self._data.get("metadata", {}).get("kernelspec") or {}).get("language", "python")
        except OSError as error:
            raise UsageError(files.cannot_open("notebook", path, error)) from None
        except ValueError:  # also what is not UTF-8
            raise UsageError(f"{path} is not a notebook: it is not JSON. Give a notebook, or a script.") from None
        except (KeyError, TypeError, AttributeError):
            raise UsageError(
                f"{path} is not a notebook of version 4: it has no cells. Save it with a newer Jupyter."
            ) from None
        if language != "python":
            raise UsageError(f"{path} is a notebook for {language}, not for Python. Give a notebook for Python.")
        self._folder = scratch.make()
        self._process = os.getpid()
        self.script = os.path.join(os.path.realpath(self._folder), f"{os.path.basename(self.path)}.py")
        self.cells: list[Cell] = []
        self.code = self._join(cells)
        with open(self.script, "w", encoding="utf-8", newline="") as opened:
            opened.write(self.code)
        saved = os.stat(self.path)
        os.utime(self.script, (saved.st_atime, saved.st_mtime))  # as old as the notebook: what runs is what is there
        self._frames = re.compile(rf'File "{re.escape(self.script)}", line (\d+)')
        self._places = re.compile(rf"(?:{re.escape(os.path.dirname(self.script) + os.sep)})?"
                                  rf"{re.escape(os.path.basename(self.script))}:(\d+)")  # fmt: skip

    def close(self) -> None:
        """Takes the script away. Not by an exit handler: those run with the program, and the report comes after it."""
        if os.getpid() == self._process:
            scratch.remove(self._folder)
            _opened.pop(self.path, None)

    def _join(self, cells: list[dict[str, Any]]) -> str:
        script: list[str] = []
        for position, cell in enumerate(cells):
            text = _source_of(cell)
            if cell.get("cell_type") != "code" or not text.strip():
                continue
            number = len(self.cells) + 1
            if "raises-exception" in cell.get("metadata", {}).get("tags", []):  # as for nbclient
                code, left_out = "\n".join(f"# {line}" for line in text.split("\n")), ["it is there to raise"]
            else:
                code, left_out = python_of(text)
            self.left_out += [f"cell {number}: {line}" for line in left_out]
            self.cells.append(Cell(number, position, len(script) + 1, text))
            script += code.split("\n")
        return "\n".join(script) + "\n"

    def _cell_at(self, line: int) -> Cell | None:
        """The cell that a line of the script is in."""
        return next((cell for cell in reversed(self.cells) if cell.first <= line), None)

    def leave_out(self, line: int, text: str) -> None:
        """Notes what a line of the script asked of IPython, once."""
        cell = self._cell_at(line)
        words = text if cell is None else f"cell {cell.number}: {text}"
        if words not in self.left_out:
            self.left_out.append(words)

    # --- What a report says ---

    def translate(self, report: Report) -> Report:
        """The report with cells in the place of the script's lines."""
        words = json.loads(report.render("json"))
        if self.left_out:
            note = f"left out of the notebook: {'; '.join(self.left_out[:5])}"
            more = len(self.left_out) - 5
            words["notes"].append(note + (f" and {more} more" if more > 0 else ""))
        return reports.load(json.dumps(self._in_cells(words)).encode())

    def _in_cells(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.name_cells(value, "")
        if isinstance(value, list):
            return [self._in_cells(each) for each in value]
        if not isinstance(value, dict):
            return value
        out = {key: self._in_cells(each) for key, each in value.items()}
        line = out.get("line")
        if out.get("file") == self.script and isinstance(line, int):
            cell = self._cell_at(line)
            if line > 0 and cell is not None:
                out["file"], out["line"] = f"{self.path}:cell {cell.number}", line - cell.first + 1
                if out.get("end_line", 0) > 0:
                    out["end_line"] -= cell.first - 1
            else:
                out["file"] = self.path
        return out

    def name_cells(self, text: str, notebook: str) -> str:
        """Words with `train.ipynb:cell 3:1` for `….py:12`; without the name where it is ""."""

        def place(match: re.Match[str]) -> str:
            cell = self._cell_at(int(match[1]))
            if cell is None:
                return match[0]
            return f"{notebook}{':' * bool(notebook)}cell {cell.number}:{int(match[1]) - cell.first + 1}"

        return self._places.sub(place, text)

    def name_frames(self, traceback: str) -> str:
        """A traceback with `File "train.ipynb:cell 3", line 1` for the script's lines."""

        def frame(match: re.Match[str]) -> str:
            cell = self._cell_at(int(match[1]))
            if cell is None:
                return match[0]
            return f'File "{self._given}:cell {cell.number}", line {int(match[1]) - cell.first + 1}'

        return self._frames.sub(frame, traceback)

    # --- Fixes ---

    def has(self, file: str) -> bool:
        """Whether a file is its script."""
        return os.path.realpath(file) == self.script

    def new_texts(self, script: bytes) -> dict[int, str]:
        """The cells that a new text of the script changes, by their numbers."""
        old, fresh = self.code.split("\n"), script.decode("utf-8").split("\n")
        own = [line for cell in self.cells for line in cell.lines]
        out: dict[int, list[str]] = {cell.number: [] for cell in self.cells}
        for what, a, b, c, d in difflib.SequenceMatcher(None, old, fresh, autojunk=False).get_opcodes():
            if what == "equal":
                for at in range(a, min(b, len(own))):
                    out[self._number_at(at + 1)].append(own[at])
            else:  # what is new belongs to the cell of the line that it replaces, or that it stands behind
                out[self._number_at(a + 1 if what != "insert" else max(a, 1))] += fresh[c:d]
                ends = {self._number_at(at + 1) for at in range(a, b)}
                assert len(ends) <= 1, "an edit goes over the end of a cell"
        texts = {cell.number: "\n".join(out[cell.number]) for cell in self.cells}
        return {cell.number: texts[cell.number] for cell in self.cells if texts[cell.number] != cell.text}

    def _number_at(self, line: int) -> int:
        cell = self._cell_at(line)
        assert cell is not None
        return cell.number

    def diff(self, script: bytes, notebook: str) -> str:
        """What a new text of the script changes, cell by cell."""
        out = ""
        for number, text in self.new_texts(script).items():
            name = f"{notebook}:cell {number}"
            old = self.cells[number - 1].lines
            lines = difflib.unified_diff(old, text.split("\n"), f"a/{name}", f"b/{name}", lineterm="")
            out += "".join(f"{line}\n" for line in lines)
        return out

    def write(self, script: bytes) -> tuple[str, str]:
        """Puts what a new text of the script changes into the notebook; (the notebook, its backup)."""
        try:
            import nbformat
        except ImportError:
            raise UsageError("fixes are written into a notebook by the package nbformat. Install it.") from None
        with open(self.path, encoding="utf-8") as file:
            data = json.load(file)
        if data != self._data:
            raise UsageError(f"{self.path} has changed since it ran. Nothing was written; run `locus fix` again.")
        book = nbformat.from_dict(copy.deepcopy(data))
        for number, text in self.new_texts(script).items():
            book.cells[self.cells[number - 1].position].source = text
        backup = _free_name(self.path)
        shutil.copy2(self.path, backup)
        part = f"{self.path}.{os.getpid()}~"
        try:
            nbformat.write(book, part, version=nbformat.NO_CONVERT)
            shutil.copymode(self.path, part)
            os.replace(part, self.path)
        finally:
            if os.path.exists(part):
                os.unlink(part)
        return self.path, backup


_opened: dict[str, Notebook] = {}


def opened(path: str) -> Notebook:
    """The notebook of that name, with its cells in files; read once."""
    key = os.path.abspath(path)
    if key not in _opened:
        _opened[key] = Notebook(path)
    return _opened[key]


def is_notebook(name: str) -> bool:
    """By its name."""
    return name.endswith(SUFFIX)


def python_of(text: str) -> tuple[str, list[str]]:
    """A cell as Python runs it, and the lines that were left out. Lines stay where they are."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    magic = re.match(r"\s*%%(\w+)", lines[first])
    if magic and magic[1] not in _BODY_RUNS:
        return "\n".join(["# " + line for line in lines]), [lines[first].strip() + " …"]
    left_out = []
    if magic:
        lines[first] = "# " + lines[first]
    inside = _inside_strings("\n".join(lines))
    for at, line in enumerate(lines):
        found = re.match(r"(\s*)(?:%(\w+)|!|\?)(.*)", line)
        timed = found and found[2] in ("time", "timeit")
        if not found or at + 1 in inside:
            if re.fullmatch(r"\s*[\w.]+\?{1,2}\s*", line) and at + 1 not in inside:
                lines[at] = _blank(line)
            continue
        if timed and found[3].strip() and not found[3].strip().startswith("-"):
            lines[at] = found[1] + found[3].strip()
            continue
        lines[at] = _blank(line)
        left_out.append(line.strip())
    return "\n".join(lines), left_out


def _blank(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{_LEFT_OUT}{line.strip()}"


def _inside_strings(text: str) -> set[int]:
    """The lines that begin inside a string in three quotes: what they begin with means nothing."""
    found: set[int] = set()
    for match in re.finditer(r"(\"\"\"|''')(?:\\.|.)*?\1", text, re.DOTALL):
        first = text.count("\n", 0, match.start()) + 1
        found.update(range(first + 1, first + match[0].count("\n") + 1))
    return found


def _source_of(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(str(part) for part in source) if isinstance(source, list) else str(source)


def _free_name(path: str) -> str:
    number = 0
    while True:
        name = f"{path}.orig{f'.{number}' if number else ''}"
        if not os.path.exists(name):
            return name
        number += 1
