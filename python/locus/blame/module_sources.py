"""Where, in the source of a module's classes, a parameter is made and used. Reads source only; never raises."""

from __future__ import annotations

import ast
import inspect
import itertools
from typing import TYPE_CHECKING

from torch import nn

from locus.blame import givers
from locus.blame.branches import Branch
from locus.fixing import device_text, rewriting
from locus.program import histories, places, source
from locus.program.shapes import Location
from locus.program.text_index import span

if TYPE_CHECKING:
    import torch

    from locus.program.shapes import Edit

_WAYS_OUT = (ast.Return, ast.Continue, ast.Break)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The innermost module with a class of the program's own on the way to a parameter, and the attribute it uses."""
    parts = name.split(".")
    best, attribute, current = module, parts[0], module
    for part, next_part in itertools.pairwise(parts):
        inner = getattr(current, part, None)
        if inner is None:
            break
        current = inner
        if _file_of(type(current)):
            best, attribute = current, next_part
    return best, attribute


def _file_of(kind: type) -> str:
    """The file of a class of the program's own, or ""."""
    try:
        file = inspect.getsourcefile(kind) or ""
    except (TypeError, OSError):
        return ""
    return file if places.is_user_file(file) else ""


def _method(kind: type, name: str) -> tuple[source.Source | None, ast.AST | None]:
    function = inspect.unwrap(getattr(kind, name, None) or (lambda: None))
    code = getattr(function, "__code__", None)
    if code is None or not places.is_user_file(code.co_filename):
        return None, None
    file = source.load(code.co_filename)
    return file, file.function_at(code.co_firstlineno, code.co_name) if file is not None else None


def _place(file: source.Source, node: ast.AST, function: str) -> Location:
    line, column, end_line, end_column = span(node)
    return places.location(file.file, line, end_line, column, end_column, function)


def _uses(scope: ast.AST, attribute: str) -> list[ast.Attribute]:
    return [
        node for node in ast.walk(scope)
        if isinstance(node, ast.Attribute) and node.attr == attribute
        and isinstance(node.value, ast.Name) and node.value.id == "self"
    ]  # fmt: skip


def definition(module: nn.Module, name: str) -> Location:
    """Where the program makes the part of a module that holds a parameter."""
    try:
        owner, attribute = _owner(module, name)
        file, scope = _method(type(owner), "__init__")
        if file is not None and scope is not None:
            for node in ast.walk(scope):
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
                if any(isinstance(t, ast.Attribute) and t.attr == attribute for t in targets):
                    return _place(file, node, f"{type(owner).__name__}.__init__")
    except Exception:
        pass
    return places.unknown_location()


def branch(module: nn.Module, name: str) -> Branch | None:
    """The `if` on which every use of a parameter's part in forward() depends: around it, or before it with a way out;
    None where there is a use without one.
    """
    try:
        owner, attribute = _owner(module, name)
        file, scope = _method(type(owner), "forward")
        if file is None or scope is None:
            return None
        found: list[tuple[ast.If | ast.IfExp, bool]] = []
        for use in _uses(scope, attribute):
            decides = _decides(file, use)
            if decides is None:
                return None
            found.append(decides)
        if not found or any(each[0] is not found[0][0] for each in found):
            return None  # no use, or several conditions: which one it was is not known
        node, leaves = found[0]
        place = _place(file, node, f"{type(owner).__name__}.forward")
        place["end_line"], place["end_column"] = node.lineno, len(file.line(node.lineno))
        return Branch(place, f"if {file.flat(node.test)}", leaves)
    except Exception:
        return None


def _decides(file: source.Source, use: ast.AST) -> tuple[ast.If | ast.IfExp, bool] | None:
    """The nearest `if` that decides whether a place is reached, and whether by a way out before it."""
    inner = use
    for node in file.ancestors(use):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not isinstance(inner, ast.stmt):
            return None
        block = file.block(inner) if isinstance(inner, ast.stmt) else []
        for before in reversed(block[: block.index(inner)] if isinstance(inner, ast.stmt) and block else []):
            if isinstance(before, ast.If) and isinstance(before.body[-1], _WAYS_OUT):
                return before, True
        if isinstance(node, (ast.If, ast.IfExp)) and inner is not node.test:
            return node, False
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        inner = node
    return None


def is_used(module: nn.Module, name: str) -> Location | None:
    """Where forward() names the part that holds a parameter, for a part that is no container of others."""
    try:
        owner, attribute = _owner(module, name)
        part = getattr(owner, attribute, None)
        if isinstance(part, (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict, nn.Sequential)):
            return None  # which of them is meant can't be read off
        file, scope = _method(type(owner), "forward")
        uses = _uses(scope, attribute) if file is not None and scope is not None else []
        return _place(file, uses[0], f"{type(owner).__name__}.forward") if file is not None and uses else None
    except Exception:
        return None


def calls(module: nn.Module, function: str, **given: object) -> Location | None:
    """A call of a function of that name, with those constant keyword arguments, in forward() of a module's parts."""
    try:
        for part in module.modules():
            file, scope = _method(type(part), "forward")
            if file is None or scope is None:
                continue
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and histories.called_name(node) == function:
                    keywords = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
                    if all(keywords.get(key) == value for key, value in given.items()):
                        return _place(file, node, f"{type(part).__name__}.forward")
    except Exception:
        pass
    return None


def with_argument(place: Location | None, argument: str) -> Edit | None:
    """The edit that gives the call at a place one more keyword argument, or another value of it."""
    try:
        file = source.load(place["file"]) if place else None
        if place is None or file is None or not place["line"]:
            return None
        for statement in file.statements_at(place["line"]):
            for node in ast.walk(statement):
                if not isinstance(node, ast.Call) or node.lineno != place["line"] or not _fits(place, file, node):
                    continue
                key = argument.partition("=")[0]
                given = [k for k in node.keywords if k.arg == key]
                if given:
                    return file.edit([source.Change.replace(given[0].value, argument.partition("=")[2])])
                last = (node.args + [k.value for k in node.keywords])[-1:]
                return file.edit([source.Change.after(last[0], f", {argument}")]) if last else None
    except Exception:
        return None
    return None


def _fits(place: Location, file: source.Source, node: ast.Call) -> bool:
    column = len(file.line(node.lineno).encode()[: node.col_offset].decode(errors="replace"))
    return place["column"] in (column, 0)


def made_on_device(tensor: torch.Tensor, device: str) -> Edit | None:
    """The edit that makes a tensor on the rank's device in the first place."""
    made = next((step for step in histories.history(tensor) if step.facts["action"] == "created"), None)
    if made is None or made.file is None or made.call is None or not givers.is_made_anew(made):
        return None
    frames = places.frames_here()
    try:
        words = device_text.write(made.file, made.call, device, places.user_frames(frames))
    finally:
        places.release_locals(frames)
    # A number that is written down would be that of one rank; the rank's own is what it has chosen.
    return rewriting.device_argument(made.file, made.call, '"cuda"' if words.startswith(('"', 'f"')) else words)
