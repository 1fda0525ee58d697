"""locus.where(): the tensors of a model, optimizer, batch or any object, and where they are. locus.history(): where one
came from. Only looks; works without simulated devices, where histories are not known.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus import markup
from locus.program import cells, histories, objects, places, source, values

if TYPE_CHECKING:
    from locus.program.shapes import Step


_MAX_DEPTH = 12
_MAX_ELEMENTS = 50
_NOT_REACHED = "`.to()` would not reach this"
_UNKNOWN = "its history is not known: it was made while Locus was not recording"


class Row(NamedTuple):
    """One line of the tree: a tensor, or (kind "") what holds tensors."""

    depth: int
    name: str
    kind: str
    shape: list[int]
    dtype: str
    device: str
    reached: bool
    """False for what the module's .to() passes by."""
    history: str


class Tree(cells.Shown):
    """The tensors of an object and where they are."""

    def __init__(self, rows: list[Row]):
        self.rows = rows

    @property
    def devices(self) -> dict[str, int]:
        """How many tensors are on each device."""
        return dict(collections.Counter(row.device for row in self.rows if row.kind).most_common())

    def __repr__(self) -> str:
        return f"<where: {self.summary()}>"

    def summary(self) -> str:
        """One line: how many tensors are where."""
        counts = [f"{count} on {device}" for device, count in self.devices.items()]
        return ("tensors: " + ", ".join(counts)) if counts else "no tensors"

    def _repr_html_(self) -> str:
        """In a notebook."""
        head = ("tensor", "kind", "type", "device", "history")
        return markup.table(head, self._rows(), self.summary())

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[column]) for row in rows if row[1]), default=0) for column in range(4)]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)) + f"  {row[4]}" for row in rows]
        return "\n".join([line.rstrip() for line in lines] + [self.summary()])

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        rows = []
        passed_by: int | None = None  # the depth of the row above that carries the mark for all below it
        for row in self.rows:
            if passed_by is not None and row.depth <= passed_by:
                passed_by = None
            marked = not row.reached and passed_by is None
            if marked:
                passed_by = row.depth
            size = f"{row.dtype}{row.shape}" if row.kind else ""
            notes = [note for note in (row.history, _NOT_REACHED if marked else "") if note]
            rows.append(("  " * row.depth + row.name, row.kind, size, row.device, "; ".join(notes)))
        return rows


class History(list["Step"], cells.Shown):
    """The steps of a tensor's way, oldest first."""

    def __init__(self, about: str, steps: Iterable[Step]):
        super().__init__(steps)
        self._about = about

    def __str__(self) -> str:
        lines = [self._about]
        for step in self:
            lines.append(f"  {_words(step)} on {step['device']}")
            if step["at"]["text"]:
                lines.append(f"      {step['at']['text'].strip()}")
        return "\n".join(lines if self else [*lines, f"  {_UNKNOWN}"])

    def _repr_html_(self) -> str:
        """In a notebook."""
        rows = [(_words(step), step["device"], step["at"]["text"].strip()) for step in self]
        return markup.table(("step", "device", "line"), rows, "" if self else _UNKNOWN)


def where(thing: object, *, show: bool = True) -> Tree:
    """Shows where the tensors of a model, an optimizer, a batch or any object are, as a tree; also returns it.

    Marks what a module's `.to()` does not reach: tensors in plain attributes, and modules in plain lists and dicts.

    Args:
        thing: anything that holds tensors.
        show: print the tree.
    """
    _vouch_for_callers()
    walk = objects.Walk(deep=True, wants=values.has_size, max_depth=_MAX_DEPTH, max_elements=_MAX_ELEMENTS)
    walk.add(thing, type(thing).__name__)
    walk.run()
    tree = Tree([_row(node) for node in walk.tree()])
    if show:
        tree.show()
    return tree


def history(tensor: torch.Tensor, *, show: bool = True) -> History:
    """Shows where a tensor came from, oldest step first; also returns the steps.

    Histories are recorded while Locus simulates or checks; [] where nothing is known.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"history() takes a tensor, not {type(tensor).__name__}. For other objects, use locus.where().")
    _vouch_for_callers()
    about = f"{_dtype(tensor)}{list(tensor.shape)} on {tensor.device}"
    steps = History(about, (step.facts for step in histories.history(tensor)))
    if show:
        steps.show()
    return steps


def _vouch_for_callers() -> None:
    """The program's own files are what is running, however new they are."""
    for frame in places.frames_here():
        source.vouch(frame.f_code, frame.f_globals)


def _row(node: objects.Node) -> Row:
    value = node.value
    if not isinstance(value, torch.Tensor):
        cls = type(value).__name__
        label = cls if node.parent is None else f"{node.short_name}: {cls}"
        return Row(node.depth, label, "", [], "", "", not node.detached, "")
    size, at = list(value.shape), str(value.device)
    part = getattr(value, "_local_tensor", None)  # of a DTensor
    story = one_line(histories.history(value if part is None else part))
    if isinstance(part, torch.Tensor) and list(part.shape) != size:
        story = "; ".join(filter(None, [f"this rank has {list(part.shape)}", story]))
    return Row(node.depth, node.short_name, node.kind, size, _dtype(value), at, not node.detached, story)


def one_line(steps: list[histories.Step]) -> str:
    """The step of a history that put the tensor where it is, in a few words."""
    telling = [step for step in steps if step.facts["action"] != "computed"] or steps
    return _words(telling[-1].facts) if telling else ""


def _words(step: Step) -> str:
    at = f" at {cells.shown(step['at']['file'])}:{step['at']['line']}" if step["at"]["line"] else ""
    op = step["op"] if step["op"].startswith(".") else f"{step['op']}()"
    verbs = {"created": "created by", "moved": "moved by", "loaded": "loaded by", "received": "received from"}
    if step["action"] == "foreign":
        return f"memory from outside PyTorch{at}"
    return f"{verbs.get(step['action'], 'computed by')} {op}{at}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
