"""What names mean in a function that has ended: its object, what it was given, what it bound of these.

Reads trees, live frames and the objects that they hold; runs nothing.
"""

from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Iterator

import torch

from locus.fixing.name_scopes import frame_of
from locus.program import bindings, contexts, source, values

_SAME_DEVICE = {
    "detach", "clone", "contiguous", "float", "double", "half", "long", "view", "reshape", "t", "flatten", "squeeze",
    "unsqueeze", "abs", "requires_grad_", "expand", "permute", "transpose",
}  # fmt: skip
"""Methods whose result is where the tensor is that they are called on."""

_MAX_OBJECTS = 400
_MAX_DEPTH = 4


class Ended:
    """A function of a file, with the frames that are alive now: one of them may be its own."""

    def __init__(self, file: source.Source, scope: ast.AST, frames: list[types.FrameType]):
        self._file, self._scope, self._frames = file, scope, frames
        self._frame = frame_of(file, scope, frames)
        self._me: list[object] | None = None

    @property
    def objects(self) -> list[object]:
        """The live objects whose method the function is."""
        if self._me is None:
            self._me = list(self._find_objects())
        return self._me

    def value(self, node: ast.AST) -> object:
        """What a simple expression was there; MISSING where that is not known, or was not the same each time. Of a
        tensor that is computed of another one on its device, that other one."""
        with contextlib.suppress(BaseException):  # what an object of the program raises when it is looked at
            found = self._values(node, 0)
            return found[0] if found and all(_is_same(each, found[0]) for each in found) else values.MISSING
        return values.MISSING

    def follows(self, node: ast.AST, device: str) -> bool:
        """Whether an expression was a tensor each time, and was on this device at one of them."""
        with contextlib.suppress(BaseException):
            found = self._values(node, 0)
            return all(map(values.is_tensor, found)) and any(
                str(getattr(each, "device", "")) == device for each in found
            )
        return False

    def _values(self, node: ast.AST, depth: int) -> list[object]:
        """What it was in each of the calls that are known."""
        if self._frame is not None:
            return [values.evaluate(node, self._frame)]
        if depth > _MAX_DEPTH:
            return []
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return [values.get_attribute(owner, node.attr) for owner in self._values(node.value, depth + 1)]
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return [values.get_item(held, node.slice.value) for held in self._values(node.value, depth + 1)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_DEVICE:
            return [
                held if values.is_tensor(held) else values.MISSING for held in self._values(node.func.value, depth + 1)
            ]
        return []

    def _name(self, node: ast.Name, depth: int) -> list[object]:
        scope = self._scope
        if scope is not self._file.tree and node.id in bindings.parameters(scope):
            return [] if self._file.find(scope, ("store", node.id)) else self._given(node.id)
        bound = bindings.binders(scope, node.id) if scope is not self._file.tree else []
        if not bound:
            return [values.globals_of(self._file.file, self._frames).get(node.id, values.MISSING)]
        if len(bound) == 1 and isinstance(bound[0], ast.Assign):
            for target, value in bindings.pairs(bound[0]):
                if isinstance(target, ast.Name) and target.id == node.id:
                    return self._values(value, depth + 1)
        return []

    def _given(self, name: str) -> list[object]:
        """What a parameter was: the object itself, what it keeps of it, what live callers pass."""
        holder = self._file.parent(self._scope)
        is_method = isinstance(holder, ast.ClassDef)
        if is_method and name == bindings.self_name(self._scope):
            return self.objects
        kept = [attribute for attribute, given in self._kept() if given == name] if is_method else []
        found = [values.get_attribute(me, attribute) for me in self.objects for attribute in kept[:1]]
        if not found:
            called = getattr(self._scope, "name", "")
            called = holder.name if called == "__init__" and isinstance(holder, ast.ClassDef) else called
            for at, call in contexts.calls_of(self._frames, called):
                node = bindings.argument_of(call, self._file, self._scope, name)
                if node is not None and at.frame is not None:
                    found.append(values.evaluate(node, at.frame))
        return found

    def _kept(self) -> Iterator[tuple[str, str]]:
        """(attribute, parameter) of `self.model = model`."""
        me = bindings.self_name(self._scope)
        for statement in ast.walk(self._scope):
            if isinstance(statement, ast.Assign):
                for target, value in bindings.pairs(statement):
                    own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == me
                    if own and isinstance(target, ast.Attribute) and isinstance(value, ast.Name):
                        yield target.attr, value.id

    def _find_objects(self) -> Iterator[object]:
        holder = self._file.parent(self._scope)
        if not isinstance(holder, ast.ClassDef):
            return
        seen: dict[int, object] = {}
        near = [v for frame in self._frames for v in values.at_rest(frame.f_locals).values()]
        for _ in range(4):
            further: list[object] = []
            for value in near:
                items = value if type(value) in (list, tuple) else [value]
                for each in items[:16] if isinstance(items, (list, tuple)) else ():
                    if id(each) in seen or len(seen) > _MAX_OBJECTS or isinstance(each, (type, types.ModuleType)):
                        continue
                    seen[id(each)] = each
                    if type(each).__name__ == holder.name and any(t is holder for _, t in bindings.class_trees(each)):
                        yield each
                    if _has_parts(each):
                        held = values.attributes(each)
                        further += [*held.values(), *(held.get("_modules") or {}).values()]
            near = further


def _has_parts(value: object) -> bool:
    """An object of the program's, or a module: not a tensor, a number, a container."""
    if values.is_tensor(value):
        return False
    return values.is_module(value) or type(value).__module__.partition(".")[0] not in ("builtins", "torch", "numpy")


def _is_same(one: object, other: object) -> bool:
    """Whether two values are the same thing, or tensors of one device."""
    if values.is_tensor(one) and values.is_tensor(other):
        return str(one.device) == str(other.device)
    return one is other or (type(one) is type(other) and isinstance(one, (str, int, torch.device)) and one == other)
