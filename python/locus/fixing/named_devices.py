"""Names for a device that are a step away: `CARDS[1]` of the module, `Cfg.main`, `model.far` of an object at hand, the
device of a tensor that an ended function took from what it was given.

Reads trees, live frames and the objects that they hold; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

import torch

from locus.fixing.ended import Ended
from locus.fixing.name_scopes import bound_before, frame_of, function_of, start
from locus.fixing.said_devices import devices_said
from locus.program import bindings, source, values
from locus.program.links import flow_of

_MAX_SAID = 60


def write(
    file: source.Source, node: ast.AST, scope: ast.AST, device: str, frames: list[types.FrameType], ended: Ended
) -> str:
    """The words for `device` at `node`; "" where there are none."""
    if not device.startswith("cuda"):
        return ""
    frame = frame_of(file, scope, frames)
    here = (
        {root.id for root in map(root_of, devices_said(scope)) if root is not None} if scope is not file.tree else set()
    )
    words = _of_module(file, device, frames, node, scope, here) or _of_objects(file, node, scope, device, frame, ended)
    if not words and frame is None and scope is not file.tree:
        words = _of_taken_tensor(file, node, scope, device, ended)
    return words or _of_module(file, device, frames, node, scope, None)


def of_list(file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType) -> str:
    """`params[0].device`, `params[-1].device`, behind `params = [p for p in …]`: not of `outs = []`."""
    flow = flow_of(file, scope)
    for name in frame.f_code.co_varnames if flow is not None else ():
        value = frame.f_locals.get(name)
        held = value if isinstance(value, list) and value and all(map(values.is_tensor, value)) else []
        at = next((n for n in (0, -1) if held and str(held[n].device) == device), None)
        reaching = flow.reaching_before(node, name) if flow is not None and at is not None else ()
        listed = bool(reaching) and all(isinstance(each.value, ast.ListComp) for each in reaching)
        if listed and bound_before(file, scope, name, node):
            return f"{name}[{at}].device"
    return ""


def root_of(node: ast.AST) -> ast.Name | None:
    """`self` of `self.cards[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _means(value: object, device: str) -> bool:
    """Whether a value is this device by its number, or the first one without."""
    is_device = isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda"))
    return is_device and (str(value) == device or (str(value) == "cuda" and device == "cuda:0"))


def _of_objects(
    file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None, ended: Ended
) -> str:
    """`model.far`, `self.model.near`: what an object that the function has says for a device."""
    if frame is not None:
        here = values.at_rest(frame.f_locals) if scope is not file.tree else {}
        held = [(name, value) for name, value in here.items() if bound_before(file, scope, name, node)]
    else:
        held = [(name, ended.value(ast.Name(name, ast.Load()))) for name in bindings.parameters(scope)]
    for name, value in held:
        for path, said in _says(value):
            early = getattr(scope, "name", "") == "__init__" and name == bindings.self_name(scope)
            if _means(said, device) and not (early and not _is_stored_before(file, scope, f"{name}.{path}", node)):
                return f"{name}.{path}"
    return ""


def _is_stored_before(file: source.Source, scope: ast.AST, text: str, node: ast.AST) -> bool:
    """Whether an __init__ has bound `self.model` (of `self.model.near`) before a place."""
    first = ".".join(text.split(".")[:2])
    stored = file.find(scope, ("stored attribute", first.partition(".")[2]))
    here = file.statement(node)
    return any(ast.unparse(n) == first and start(n) < start(node) and file.statement(n) is not here for n in stored)


def _says(value: object, depth: int = 0) -> Iterator[tuple[str, object]]:
    """(path, device) of the attributes of an object that are devices, its own first."""
    if value is values.MISSING or values.is_tensor(value) or isinstance(value, (type, types.ModuleType, str, int)):
        return
    held = values.attributes(value)
    for name, each in held.items():
        if isinstance(each, (torch.device, str)) and name.isidentifier() and not name.startswith("_"):
            yield name, each
    for name, each in [*held.items(), *(held.get("_modules") or {}).items()] if depth < 1 else []:
        is_own = type(each).__module__.partition(".")[0] not in ("builtins", "torch", "numpy")
        if is_own and name.isidentifier() and not name.startswith("_"):
            for path, said in _says(each, depth + 1):
                yield f"{name}.{path}", said


def _of_taken_tensor(file: source.Source, node: ast.AST, scope: ast.AST, device: str, ended: Ended) -> str:
    """`w.device` behind `w = layer.weight.detach()`, in a function that has ended."""
    names = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    for name in dict.fromkeys(n.id for n in names if start(n) < start(node)):
        if bound_before(file, scope, name, node) and ended.follows(ast.Name(name, ast.Load()), device):
            return f"{name}.device"
    return ""


def _of_module(
    file: source.Source, device: str, frames: list[types.FrameType], node: ast.AST, scope: ast.AST,
    roots: set[str] | None,
) -> str:  # fmt: skip
    """`CARDS[1]`, `Cfg.side`: what the file says for a device elsewhere, of a name that the module has; `roots`: of one
    of these only."""
    names = values.globals_of(file.file, frames)
    for said in file.once(_said_in)[:_MAX_SAID]:
        root = root_of(said)
        if root is None or isinstance(said, ast.Name) or root.id not in names:
            continue
        if roots is not None and root.id not in roots:
            continue
        around = function_of(file, said)
        is_local = around is not file.tree and bindings.binds(around, root.id)
        if is_local or (scope is not file.tree and bindings.binds(scope, root.id)):
            continue
        if scope is file.tree and not bound_before(file, scope, root.id, node):
            continue
        if _means(_value_of(said, names), device):
            return ast.unparse(said)
    for name, value in list(names.items()):
        distinct = isinstance(value, (list, tuple)) and len(set(map(str, value))) == len(value)
        if distinct and isinstance(value, (list, tuple)) and all(isinstance(e, (torch.device, str)) for e in value):
            number = next((n for n, each in enumerate(value) if _means(each, device)), None)
            usable = scope is not file.tree and not bindings.binds(scope, name)
            usable = usable and (roots is None or name in roots)
            if number is not None and usable and not name.startswith("_"):
                return f"{name}[{number}]"
    return ""


def _said_in(file: source.Source) -> list[ast.expr]:
    return [said for said in devices_said(file.tree) if not isinstance(said, ast.Call)]


def _value_of(node: ast.AST, names: dict[str, object]) -> object:
    if isinstance(node, ast.Name):
        return names.get(node.id, values.MISSING)
    if isinstance(node, ast.Attribute):
        owner = _value_of(node.value, names)
        if isinstance(owner, type):
            return vars(owner).get(node.attr, values.MISSING)
        return values.MISSING if owner is values.MISSING else values.get_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        held = _value_of(node.value, names)
        return values.MISSING if held is values.MISSING else values.get_item(held, node.slice.value)
    return values.MISSING
