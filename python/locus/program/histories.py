"""Where a tensor came from, as steps with source lines: the bridge's chain of origins, read against the program's text.

An adapter: without a bridge, or with one that does not record origins, histories are empty.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from locus.program import places, shapes, source, values

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.raw_shapes import Origin
    from locus.program.shapes import Location
    from locus.vocabulary import Action


_ACTIONS: dict[str, Action] = {
    "derived": "computed", "default": "created", "explicit": "created", "moved": "moved", "foreign": "foreign",
    "loaded": "loaded", "received": "received",
}  # fmt: skip

_MARKS = {"torch.load": ("loaded", "load"), "DataLoader": ("received", "DataLoader")}

# Operators that only copy or move: the program's own words for them are at the call.
_COPIES = {"_to_copy", "to", "copy_", "cuda", "cpu", "_copy_from", "_pin_memory", "pin_memory"}

_SAME_WORDS = {
    "_to_copy": ("to", "cuda", "cpu"), "full": ("full", "ones", "zeros"), "lift_fresh": ("tensor",),
    "addmm": ("linear",), "mm": ("matmul",), "bmm": ("matmul",),
}  # fmt: skip

_MAX_TEXT = 60

_DEVICE_METHODS = {"to", "cuda", "cpu", "to_empty", "xpu", "ipu", "_to"}


@dataclass
class Step:
    """One step of a history: the STEP of a case, and the tree at its place."""

    facts: shapes.Step
    file: source.Source | None
    node: ast.AST | None
    call: ast.Call | None
    text: str
    """What the program calls the result: the variable it is assigned to, or the expression; "" where it is neither."""


def bridge() -> Bridge | None:
    """The bridge, where it is loaded."""
    return cast("Bridge | None", sys.modules.get("locus._bridge"))


def site_positions(site: int) -> tuple[str, int, int, int, int, str] | None:
    """(file, line, end line, column, end column, function) of a site, or None."""
    read = getattr(bridge(), "site_location", None)
    found = read(site) if read is not None and site > 0 else None
    if not found or not found[0] or not found[1]:
        return None
    file, line, end_line, column, end_column, function = found
    column = -1 if column is None else column
    return file, line, max(end_line or line, line), column, -1 if end_column is None else end_column, function or ""


def site_location(site: int) -> Location | None:
    """The LOC of a site, or None where it is not known."""
    found = site_positions(site)
    if found is None:
        return None
    file, line, end_line, column, end_column, function = found
    return places.location(file, line, end_line, column, end_column, places.plain_name(function))


def history(tensor: object) -> list[Step]:
    """The steps of a tensor's history, oldest first; [] where nothing is known."""
    read = getattr(bridge(), "origin_chain", None)
    if read is None or not values.is_tensor(tensor):
        return []
    return [_step(origin) for origin in reversed(read(tensor) or [])]


def lines(tensor: object) -> set[tuple[str, int]]:
    """(file, line) of the steps of a tensor's history."""
    places_ = [step.facts["at"] for step in history(tensor)]
    return {(at["file"], at["line"]) for at in places_ if at["line"]}


def has_copied(file: str, line: int) -> bool:
    """Whether a line has copied something to a device."""
    ask = getattr(bridge(), "has_copied", None)
    return ask is not None and ask(file, line)


def is_received(origin: Origin) -> bool:
    """Whether an origin is that of what a loader gave."""
    return _MARKS.get(str(origin.get("op", "")), ("", ""))[0] == "received"


def is_loaded_to_host(steps: list[Step]) -> bool:
    """`torch.load(path, map_location="cpu")`: by the program's own wish."""
    calls = [step.call for step in steps if step.facts["action"] == "loaded" and step.call is not None]
    given = [k.value for call in calls for k in call.keywords if k.arg == "map_location"]
    return any("cpu" in ast.unparse(value) for value in given)


def _step(origin: Origin) -> Step:
    placement: str = origin.get("placement", "derived")
    name = str(origin.get("op", "")).partition("::")[2].partition(".")[0] or str(origin.get("op", ""))
    # What the hooks mark has no operator: the bridge names the thing itself.
    placement, name = _MARKS.get(name, (placement, name))
    stem = name
    positions = site_positions(int(origin.get("site", 0) or 0))
    file = source.load(positions[0]) if positions else None
    node = file.at(*positions[1:5]) if file is not None and positions is not None else None
    call = _call_of(file, node, name) if file is not None and node is not None else None
    explicit = placement in ("moved", "explicit")
    if file is not None and call is not None:
        explicit = names_device(call) or (placement in ("default", "explicit") and _under_device(file, call))
        name = _words(file, call, name, placement)
    facts: shapes.Step = {
        "action": _ACTIONS.get(placement, "computed"),
        "op": name,
        "device": str(origin.get("device", "")),
        "explicit": bool(explicit),
        "at": site_location(int(origin.get("site", 0) or 0)) or places.unknown_location(),
    }
    return Step(facts, file, node, call, _text(file, node, stem))


def _call_of(file: source.Source, node: ast.AST, op: str) -> ast.Call | None:
    """The call at a site; where the site is inside one (a comprehension, an argument), the call itself."""
    if isinstance(node, ast.Call):
        return node
    inner = [n for n in ast.walk(node) if isinstance(n, ast.Call) and called_name(n).strip("_") == op.strip("_")]
    return inner[0] if len(inner) == 1 else None


def called_name(call: ast.Call) -> str:
    """The last name of what is called: `randn` of torch.randn(3)."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_namespace(node: ast.AST) -> bool:
    """`torch` in torch.add, `F` in F.linear: not an object that a method is called on."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "nn", "functional", "th", "linalg", "np")


def names_device(call: ast.Call) -> bool:
    """Whether a call says where its result shall be."""
    if any(keyword.arg in ("device", "map_location", "non_blocking") for keyword in call.keywords):
        named = any(keyword.arg in ("device", "map_location") for keyword in call.keywords)
        return named or called_name(call) in ("to", "cuda", "cpu")
    name = called_name(call)
    if name in ("cuda", "cpu"):
        return isinstance(call.func, ast.Attribute)
    return name in _DEVICE_METHODS and bool(call.args) and _is_device_like(call.args[0])


def _is_device_like(node: ast.AST) -> bool:
    """Not a dtype: `.to(torch.float16)` moves nothing."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("torch", "th"):
        return False
    return not (isinstance(node, ast.Attribute) and node.attr == "dtype")


def _under_device(file: source.Source, node: ast.AST) -> bool:
    """Whether the call stands in a `with torch.device(…):` of the same function."""
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, source.Function):
            return False
        if isinstance(ancestor, (ast.With, ast.AsyncWith)):
            for item in ancestor.items:
                if isinstance(item.context_expr, ast.Call) and ast.unparse(item.context_expr.func) == "torch.device":
                    return True
    return False


def _words(file: source.Source, call: ast.Call, op: str, placement: str) -> str:
    """The operator as the program has it: `randn`, `.to("cuda:0")`."""
    name = called_name(call)
    if not name:
        return op
    if op in _COPIES or placement == "moved" or (name in _DEVICE_METHODS and isinstance(call.func, ast.Attribute)):
        if isinstance(call.func, ast.Attribute) and (name in _DEVICE_METHODS or op in _COPIES):
            arguments = [file.flat(argument) for argument in call.args]
            arguments += [(f"{k.arg}=" if k.arg else "**") + file.flat(k.value) for k in call.keywords]
            text = ", ".join(arguments)
            if is_namespace(call.func.value):
                return name
            return f".{name}({text})" if len(text) <= _MAX_TEXT else f".{name}(…)"
        return op if op not in _COPIES else name
    return name if placement in ("default", "explicit", "loaded") else op


def _text(file: source.Source | None, node: ast.AST | None, op: str) -> str:
    if file is None or node is None:
        return ""
    # The operator may have run deep inside a call at that place; then the call's result is another tensor.
    if isinstance(node, ast.Call) and called_name(node).strip("_") not in (op.strip("_"), *_SAME_WORDS.get(op, ())):
        return ""
    statement = file.statement(node)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is node:
        target = statement.targets[0]
        return file.flat(target) if isinstance(target, (ast.Name, ast.Attribute)) else ""
    text = file.flat(node) if isinstance(node, (ast.Call, ast.BinOp, ast.Compare, ast.Subscript, ast.UnaryOp)) else ""
    return text if len(text) <= _MAX_TEXT else ""
