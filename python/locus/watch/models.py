"""The models of a checked program: their modules and tensors, and where those are. Looked at a few times in a run and
kept as plain data, for a model may be gone when the report is made.

Only looks: runs none of the program's code, keeps no tensor and no module alive.
"""

from __future__ import annotations

import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import TypedDict

import torch

from locus import faults
from locus.program import names, objects, places, values
from locus.watch import interruptions

_MAX_MODELS = 8
_MAX_ROWS = 1_500
_MAX_DEPTH = 24
_MAX_ELEMENTS = 50
_LOOKS_AT_FINDINGS = 3
_LOOKS_AT_MOVES = 4
_SHARE_OF_TIME = 0.03  # that looking for models may take of a run; those that are known are looked at all the same

Row = dict[str, object]
Model = TypedDict("Model", {"name": str, "class": str, "rows": list[Row], "more_rows": int})


class Models:
    """What is known of the program's models so far."""

    def __init__(self) -> None:
        self._seen: list[tuple[weakref.ref[object], Model]] = []
        self._findings = self._moves = 0
        self._stepped = False
        self._began, self._spent = time.perf_counter(), 0.0

    def at_step(self, *_: object) -> None:
        """After an optimizer's step; looks once, when the model has just been trained for the first time."""
        if not self._stepped:
            self._stepped = True
            # Before Python 3.13 a frame that is asked for its variables keeps them alive.
            self.look(places.user_frames(places.frames_here()) if sys.version_info >= (3, 13) else [])

    def at_move(self, module: object, device: str) -> None:
        """After a module was moved: it may be gone before anything else happens that is worth a look."""
        if self._moves < _LOOKS_AT_MOVES:
            self._moves += 1
            self._guarded(lambda: self._keep(module, "", set()))

    def at_finding(self, frames: list[types.FrameType]) -> None:
        """When a mistake was found: the frames have been searched for names already."""
        if self._findings < _LOOKS_AT_FINDINGS:
            self._findings += 1
            self.look(frames)

    def look(self, frames: list[types.FrameType]) -> None:
        """Brings what is known up to date. Never fails: a model that can't be read is left out."""
        began = time.perf_counter()
        if self._seen and self._spent > _SHARE_OF_TIME * (began - self._began):
            self._guarded(lambda: self._look([root for ref, _ in self._seen if (root := ref()) is not None], frames))
        else:
            self._guarded(lambda: self._look(_roots(), frames))
        self._spent += time.perf_counter() - began

    def rows(self) -> list[Model]:
        """The models for the report, the largest first."""
        models = [model for _, model in self._seen]
        models.sort(key=lambda model: len(model["rows"]) + model["more_rows"], reverse=True)
        return models[:_MAX_MODELS]

    def _guarded(self, look: Callable[[], None]) -> None:
        try:
            with torch._C.DisableTorchFunctionSubclass():
                look()
        except Exception as error:
            interruptions.pass_on(error)
            faults.note("looking at models", error)

    def _look(self, roots: list[object], frames: list[types.FrameType]) -> None:
        walked: set[int] = set()
        for root in roots:
            if id(root) not in walked:  # else it is part of a model in a way that PyTorch does not see
                self._keep(root, _name(root, frames), walked)

    def _keep(self, root: object, name: str, walked: set[int]) -> None:
        known = next((model for ref, model in self._seen if ref() is root), None)
        name = name or (known["name"] if known is not None else "")
        before = set(walked)
        tree = _tree(root, name or type(root).__name__, walked)
        if not tree:
            return
        # What was looked at alone is shown as the part that it is.
        parts = walked - before
        self._seen = [(ref, model) for ref, model in self._seen if ref() is root or id(ref()) not in parts]
        rows = [_row(node, node.value) for node in tree[:_MAX_ROWS]]
        model: Model = {"name": name, "class": type(root).__name__, "rows": rows, "more_rows": len(tree) - len(rows)}
        if known is not None:
            known.update(model)
        elif len(self._seen) < 4 * _MAX_MODELS:
            self._seen.append((weakref.ref(root), model))


def _roots() -> list[object]:
    """The modules that are not part of another one, the largest first."""
    roots = [m for m in names.outermost(torch.nn.Module) if not values.attributes(m).get("_is_replica")]
    sizes: dict[int, int] = {}
    for root in roots:
        below, stack = {id(root)}, [root]
        while stack and len(below) < 10_000:
            for child in (values.attributes(stack.pop()).get("_modules") or {}).values():
                if values.is_module(child) and id(child) not in below:
                    below.add(id(child))
                    stack.append(child)
        sizes[id(root)] = len(below)
    return sorted(roots, key=lambda root: sizes[id(root)], reverse=True)


def _tree(root: object, name: str, walked: set[int]) -> list[objects.Node]:
    """A module and what it holds; nothing where it holds no tensor."""
    walk = objects.Walk(
        wants=values.has_size, enters=_is_part, gradients=False, seen=walked, max_depth=_MAX_DEPTH,
        max_elements=_MAX_ELEMENTS,
    )  # fmt: skip
    walk.add(root, name)
    walk.run()
    return walk.tree()


def _is_part(value: object) -> bool:
    """Objects of the program's own are not part of a model's tree."""
    return values.is_module(value) or isinstance(value, (dict, list, tuple))


def _row(node: objects.Node, value: object) -> Row:
    cls, kind, device, shape, dtype, size = type(value).__name__, "module", "", [], "", 0
    if isinstance(value, torch.Tensor):
        cls, kind, device, shape = "", node.kind, str(value.device), [*value.shape]
        dtype, size = str(value.dtype).removeprefix("torch."), value.numel() * value.element_size()
    return {
        "depth": node.depth, "name": node.short_name, "class": cls, "kind": kind, "device": device, "shape": shape,
        "dtype": dtype, "bytes": size, "reached": not node.detached,
    }  # fmt: skip


def _name(root: object, frames: list[types.FrameType]) -> str:
    """The name of a model in the program."""
    main = sys.modules.get("__main__")
    scopes = [frame.f_locals for frame in frames] + [vars(main) if main is not None else {}]
    for scope in scopes:
        for name, value in values.at_rest(scope).items():
            if value is root and isinstance(name, str) and name != "self" and not name.startswith("@"):
                return name
    return ""
