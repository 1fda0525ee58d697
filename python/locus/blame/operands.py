"""What can be said of one operand by itself: what its tensor shows, and what its history says it was meant for.

Reads only. A tensor subclass may refuse anything; then the case says less.
"""

from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from locus.blame import candidates
from locus.program import histories, makers, source

if TYPE_CHECKING:
    import torch

    from locus.program import expressions, trails
    from locus.program.raw_shapes import OnDevice, RawOperand
    from locus.program.shapes import Location, Operand, Step


def is_handed_over(facts: Operand, node: ast.AST | None) -> bool:
    """What `.cpu()` put on the host on purpose, and is kept there: it is moved where it is used."""
    placed = next((step for step in reversed(facts["history"]) if step["action"] != "computed"), None)
    on_purpose = placed is not None and placed["action"] == "moved" and placed["explicit"] and placed["device"] == "cpu"
    return on_purpose and isinstance(node, ast.Attribute) and "move_at_use" in facts["edits"]


_HOST_ARGUMENTS = {"pack_padded_sequence": ("lengths", 1)}
"""Functions that take an argument on the host only, by its name and position."""


def is_needed_on_host(use: expressions.Use, node: ast.AST | None) -> bool:
    """Whether the function that uses a value also gives it to one that takes it on the host only."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if use.file is None or not isinstance(node, ast.Name):
        return False
    code = use.frame.f_code
    scope = use.file.function_at(code.co_firstlineno, code.co_name)
    for call in use.file.calls(scope, *_HOST_ARGUMENTS) if scope is not None else ():
        keyword, position = _HOST_ARGUMENTS[histories.called_name(call)]
        given = [k.value for k in call.keywords if k.arg == keyword] or call.args[position : position + 1]
        if any(isinstance(each, ast.Name) and each.id == node.id for each in given):
            return True
    return False


def is_saved(name: str, frame: types.FrameType) -> bool:
    """Whether a variable was unpacked from ctx.saved_tensors."""
    file = source.load(frame.f_code.co_filename)
    scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name) if file else None
    if file is None or scope is None:
        return False
    for saved in file.find(scope, ("attribute", "saved_tensors")):
        node = file.statement(saved)
        if isinstance(node, ast.Assign) and (node.lineno <= (frame.f_lineno or 0)):
            value = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            targets = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            if name in targets and value is saved:
                return True
    return False


def raw(argument: str, position: int, tensor: torch.Tensor | None) -> RawOperand:
    """An operand that the bridge has not seen."""
    return {"argument": argument, "position": position, "index": -1, "tensor": tensor, "odd": False, "rule": "same",
            "written": False, "device": str(tensor.device) if tensor is not None else ""}  # fmt: skip


def plain(operand: RawOperand) -> Operand:
    """What can be read off the tensor itself."""
    facts: Operand = {
        "argument": operand.get("argument", ""), "position": operand.get("position", -1), "expression": None,
        "name": "", "kind": "temporary", "device": "", "shape": [], "dtype": "", "zero_dim": False,
        "written": bool(operand.get("written", False)), "requires_grad": False, "is_leaf": True,
        "odd": bool(operand.get("odd", False)), "rule": operand.get("rule", "same"),
        "owner": None, "history": [], "edits": {},
    }  # fmt: skip
    facts["device"] = str(operand.get("device", ""))  # of a tensor that is gone
    read(facts, operand.get("tensor"))
    return facts


def read(facts: Operand, tensor: OnDevice | None) -> None:
    """Fills in what a tensor itself shows."""
    for key, reader in _READERS.items():
        with contextlib.suppress(BaseException):  # a tensor subclass may refuse anything; other things have less
            facts[key] = reader(tensor)  # type: ignore[literal-required, arg-type]  # keys that it has; suppressed


_READERS: dict[str, Callable[[torch.Tensor], object]] = {
    "device": lambda tensor: str(tensor.device),
    "shape": lambda tensor: [int(size) for size in tensor.shape],
    "dtype": lambda tensor: str(tensor.dtype).removeprefix("torch."),
    "zero_dim": lambda tensor: tensor.dim() == 0,
    "requires_grad": lambda tensor: bool(tensor.requires_grad),
    "is_leaf": lambda tensor: bool(tensor.is_leaf),
}


def created(op: str, device: str, explicit: bool, at: Location) -> Step:
    """The step of a call that made something."""
    return {"action": "created", "op": op, "device": device, "explicit": explicit, "at": at}


def add_made(facts: Operand, way: trails.Trail | None) -> None:
    """Memory that PyTorch did not allocate has no history; the text says which call brought it in."""
    made = next((link for link in way.links if link.how == "made"), None) if way is not None else None
    if made is None or facts["kind"] in ("parameter", "buffer", "generator") or "device" in ast.dump(made.node):
        return
    op = histories.called_name(made.node) if isinstance(made.node, ast.Call) else ""
    made_at = created(op, facts["device"], False, candidates.location_of(made.context.file, made.node))
    facts["history"] = [made_at, *facts["history"]]


def is_made_by_the_call(steps: list[histories.Step], use: expressions.Use) -> bool:
    """Whether a library made a tensor inside the very call that it is an operand of, to compute the result in."""
    made = steps[0] if len(steps) == 1 else None
    if made is None or made.facts["action"] != "created" or made.facts["explicit"] or made.call is None:
        return False
    return made.call is use.node and not makers.makes_tensor(made.call)
