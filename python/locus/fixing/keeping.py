"""Where a program puts another tensor to those that it keeps (`history.append(loss)`, `total += loss`), and the same
line without the graph behind the tensor. There is an edit only where nobody can miss the graph."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from locus.fixing.rewriting import append_call
from locus.program import places, source, values

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Location

_ADDS = {"append": 0, "appendleft": 0, "add": 0, "insert": 1, "setdefault": 1}
"""Methods that put one more into a container, and which argument it is."""
_READS = {"print", "len", "float", "int", "round", "str", "repr"}
_NUMBERS = {"item", "detach", "tolist", "shape", "dtype", "device"}


class Growth(NamedTuple):
    """The line that keeps another tensor."""

    file: source.Source
    statement: ast.stmt
    kept: ast.expr
    """What is put there."""
    name: str
    value: object = values.MISSING
    """What that is now, where a function that runs has it under a name."""
    parts: tuple[tuple[ast.expr, object], ...] = ()
    """Where it is written out (`(step, loss)`, `[loss]`, `{"loss": loss}`): its elements, and what they are now."""

    @property
    def location(self) -> Location:
        return places.node_location(self.file, self.statement)


def find(name: str, frames: list[types.FrameType]) -> Growth | None:
    """Where the program adds to what it calls `name`; None where that is not one line."""
    last = _last_part(name)
    for path in dict.fromkeys(frame.f_code.co_filename for frame in frames):
        file = source.load(path)
        running = [frame for frame in frames if frame.f_code.co_filename == path]
        found = [] if file is None or not last else list(_growths(file, last))
        found = [each._replace(value=_value_of(each.kept, running), parts=_parts(each.kept, running)) for each in found]
        if len(found) > 1:  # `logs["loss"].append(loss)` beside `logs["norm"].append(norm)`
            found = [each for each in found if _has_graph(each.value)] or found
        if len(found) == 1:
            return found[0]
        if found:
            return None
    return None


def _value_of(node: ast.expr, frames: list[types.FrameType]) -> object:
    known = (values.evaluate(node, frame) for frame in frames)
    return next((value for value in known if value is not values.MISSING), values.MISSING)


def _parts(node: ast.expr, frames: list[types.FrameType]) -> tuple[tuple[ast.expr, object], ...]:
    written: list[ast.expr] = []
    if isinstance(node, (ast.List, ast.Tuple)):
        written = node.elts
    elif isinstance(node, ast.Dict):
        written = node.values
    return tuple((each, _value_of(each, frames)) for each in written)


def _has_graph(value: object) -> bool:
    return values.is_tensor(value) and value.grad_fn is not None


def _last_part(name: str) -> str:
    """`losses` of `self.meter.losses`, `logs` of `logs["loss"]`."""
    name = name.partition("[")[0]
    return name.rpartition(".")[2]


def _named(node: ast.AST, name: str) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _growths(file: source.Source, name: str) -> Iterator[Growth]:
    for node in ast.walk(file.tree):
        kept: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _named(node.func.value, name):
            place = _ADDS.get(node.func.attr)
            kept = node.args[place] if place is not None and len(node.args) > place else None
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _named(node.target, name):
            kept = node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Subscript) and _named(target, name):
                kept = value
            elif _named(target, name) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
                kept = value.right if _named(value.left, name) else value.left if _named(value.right, name) else None
        statement = file.statement(node) if kept is not None else None
        if kept is not None and statement is not None:
            yield Growth(file, statement, kept, name)


def without_graph(growth: Growth, spent: bool) -> Edit | None:
    """The same line with the tensor alone. `spent`: no backward() can use the graph any more."""
    if not spent and not _is_only_read(growth):
        return None
    edit: Edit | None
    if growth.parts:
        edit = _parts_without_graph(growth)
    elif isinstance(growth.value, (dict, list, tuple)):
        edit = _each_without_graph(growth)
    else:
        edit = append_call(growth.file, growth.kept, ".detach()")
    if edit is None:
        return None
    return {**edit, "note": "keep the tensor without its graph; `.item()` keeps its number alone"}


def _each_without_graph(growth: Growth) -> Edit | None:
    """`history.append({k: v.detach() for k, v in out.items()})`, of what holds tensors and nothing else."""
    held = growth.value.values() if isinstance(growth.value, dict) else growth.value
    if not isinstance(growth.kept, ast.Name) or not isinstance(held, Iterable) or not all(map(values.is_tensor, held)):
        return None
    name = growth.kept.id
    text = f"[v.detach() for v in {name}]"
    if isinstance(growth.value, dict):
        text = f"{{k: v.detach() for k, v in {name}.items()}}"
    return growth.file.edit([source.Change.replace(growth.kept, text)])


def _parts_without_graph(growth: Growth) -> Edit | None:
    """`history.append((step, loss.detach()))`, where it is known of every element what it is."""
    if any(value is values.MISSING for _, value in growth.parts):
        return None
    graphs = [node for node, value in growth.parts if _has_graph(value)]
    if not graphs or not all(isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) for node in graphs):
        return None
    return growth.file.edit([source.Change.after(node, ".detach()") for node in graphs])


def _is_only_read(growth: Growth) -> bool:
    """Whether nothing is done with what is kept but to print it and to take numbers out of it."""
    for node in ast.walk(growth.file.tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not _named(node, growth.name):
            continue
        if isinstance(node.ctx, ast.Store) or growth.file.statement(node) is growth.statement:
            continue
        if not any(_reads(outer) for outer in growth.file.ancestors(node)):
            return False
    return True


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.FormattedValue):
        return True
    if isinstance(node, ast.Attribute):
        return node.attr in _NUMBERS
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _READS
