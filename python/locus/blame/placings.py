"""Lines that put a tensor where it is, on purpose and wrongly: on the host, where nobody needs it; on a card that the
line does not name; on another card than its layer's.

Reads histories and trees; moves nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence

import torch

from locus.blame.candidates import Cause
from locus.fixing import device_text, name_scopes, rewriting
from locus.program import batches, bindings, histories, links, source, values

_PASSES_ON = {"detach", "contiguous", "view", "reshape", "requires_grad_", "t", "squeeze", "unsqueeze", "flatten"}
"""Methods whose result shares memory with what they are called on."""

_COPIES = {"clone", "contiguous", "detach", "to", "float", "half", "double", ".float()", ".half()", ".double()"}
"""What leaves a copy a copy."""

_PUTTERS = {"append", "appendleft", "add", "put", "extend", "insert"}


def of_wrong_card(
    steps: list[histories.Step], device: str, users: list[types.FrameType],
    others: Sequence[tuple[ast.AST, source.Source]] = (),
) -> Cause | None:  # fmt: skip
    """The line that put a tensor on another card than the one that is meant, with the one that is."""
    placed = _placed(steps)
    if placed is None or placed.call is None or placed.file is None or not placed.facts["explicit"]:
        return None
    if any(_varies(placed.file, each) for each in _said(placed.call)):
        return None  # a loop over devices: it means each of them
    words = device_text.write(placed.file, placed.call, device, users, others)
    if words.startswith('"') and name_scopes.function_of(placed.file, placed.call) is not placed.file.tree:
        return None  # in a function, which may make others: the number of one card would be wrong for them
    if placed.facts["action"] == "created":
        edit = rewriting.device_argument(placed.file, placed.call, words)
    else:
        edit = rewriting.append_call(placed.file, placed.call, f".to({words})")
    return Cause(placed.facts["at"], edit) if edit is not None else None


def of_unnamed_card(
    steps: list[histories.Step], device: str, users: list[types.FrameType],
    others: Sequence[tuple[ast.AST, source.Source]],
) -> Cause | None:  # fmt: skip
    """`x.cuda()`, `device="cuda"`, where another card than the current one is meant."""
    placed = _placed(steps)
    if placed is None or placed.call is None or not placed.facts["device"].startswith("cuda"):
        return None
    said = _said(placed.call)
    unnamed = not said and histories.called_name(placed.call) == "cuda"
    if not unnamed and not any(_says_cuda(each) for each in said):
        return None
    return of_wrong_card(steps, device, users, others) or Cause(placed.facts["at"], None)


def is_moved_for(steps: list[histories.Step], users: list[types.FrameType]) -> bool:
    """`labels = labels.to(first)`, `ramp = torch.ones(3, device=first)`, which nobody reads but what wants it on
    another card: the statement that runs, and others that have nothing to do with the first."""
    placed = _placed(steps)
    if placed is None or placed.facts["action"] not in ("moved", "created") or placed.file is None:
        return False
    file, call = placed.file, placed.call
    statement = file.statement(call) if call is not None else None
    if call is None or not isinstance(statement, ast.Assign) or not placed.facts["device"].startswith("cuda"):
        return False
    bound = [target for target, value in bindings.pairs(statement) if value is call]
    scope = name_scopes.function_of(file, call)
    frame = name_scopes.frame_of(file, scope, users)
    if len(bound) == 1 and isinstance(bound[0], ast.Attribute):
        return steps[-1] is placed and _is_kept_for(file, bound[0], users)
    if len(bound) != 1 or not isinstance(bound[0], ast.Name) or frame is None:
        return False
    around = file.statements_at(frame.f_lineno or 0)
    running = around[-1] if around else None
    names = {name for target, _ in bindings.pairs(statement) for name in batches.targets(target)}
    flow = links.flow_of(file, scope)
    nodes = [node for node in file.find(scope, ("load", bound[0].id)) if name_scopes.function_of(file, node) is scope]
    reads = [node for node in nodes if flow is not None and any(each.node is statement for each in flow.reaching(node))]
    here = [node for node in reads if file.statement(node) is running]
    # What was computed of it since may have been computed with something of that card.
    asked = reads if steps[-1] is not placed else [node for node in reads if node not in here]
    return bool(here) and all(_meets_nothing_on(file, node, frame, placed.facts["device"], names) for node in asked)


def _is_kept_for(file: source.Source, target: ast.Attribute, users: list[types.FrameType]) -> bool:
    """`self.weight = weight.to(first)`, which the class reads nowhere but in the statement that runs, once."""
    holder = file.scope(name_scopes.function_of(file, target))
    if not isinstance(holder, ast.ClassDef):
        return False
    running = [file.statements_at(f.f_lineno or 0)[-1:] for f in users if f.f_code.co_filename == file.file]
    named = [n for n in ast.walk(file.tree) if isinstance(n, ast.Attribute) and n.attr == target.attr]
    reads = [n for n in named if isinstance(n.ctx, ast.Load)]
    stored = [n for n in named if not isinstance(n.ctx, ast.Load)]
    here = [n for n in reads if any(file.statement(n) is each for found in running[:1] for each in found)]
    return len(reads) == 1 and len(here) == 1 and len(stored) == 1


def _meets_nothing_on(
    file: source.Source, node: ast.AST, frame: types.FrameType, device: str, besides: set[str]
) -> bool:
    """Whether the expression in which a value meets others has none that is on a device: no tensor but those of these
    names, no module, no object that may hold some."""
    for around in [node, *file.ancestors(node)]:
        if isinstance(around, ast.stmt):
            break
        named = [n for n in ast.walk(around) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        held = [values.name_in(frame, each.id) for each in named if each.id not in besides]
        met = [value for value in held if value is not values.MISSING and not isinstance(value, _HOLDS_NOTHING)]
        if met:
            return not any(_is_or_may_be_on(value, device) for value in met)
    return True


def _is_or_may_be_on(value: object, device: str) -> bool:
    if values.is_tensor(value):
        return str(value.device) == device
    if values.is_module(value):
        return any(str(parameter.device) == device for parameter in value.parameters())
    return True


_HOLDS_NOTHING = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, int, float, str, torch.device)


def _said(call: ast.Call) -> list[ast.expr]:
    """The device that a call names."""
    said = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    return said + (call.args[:1] if histories.called_name(call) in ("to", "cuda") else [])


def _varies(file: source.Source, node: ast.AST) -> bool:
    """Whether a loop or a comprehension around a place gives its name another value each time."""
    name = node.id if isinstance(node, ast.Name) else ""
    loops = [a for a in file.ancestors(node) if isinstance(a, (ast.For, ast.AsyncFor))]
    bound = [n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    return bool(name) and (name in bound or name_scopes.is_comprehended(file, node, name))


def _says_cuda(node: ast.AST) -> bool:
    """`"cuda"`, `"cuda" if torch.cuda.is_available() else "cpu"`."""
    return any(isinstance(n, ast.Constant) and n.value == "cuda" for n in ast.walk(node))


def of_host_copy(steps: list[histories.Step]) -> Cause | None:
    """`self.mask = mask.cpu()`: the line that brought a tensor to the host, with the edit that leaves it where it was.
    Not where it is put into a growing list: that is on the host for its size."""
    placed = _placed(steps)
    if placed is None or placed.call is None or placed.file is None or placed.facts["action"] != "moved":
        return None
    if any(step.facts["op"] not in _COPIES for step in steps[steps.index(placed) + 1 :]):
        return None  # something was computed on the host
    file, call = placed.file, placed.call
    to_host = histories.called_name(call) == "cpu" or (call.args and "cpu" in ast.unparse(call.args[0]))
    if placed.facts["device"] != "cpu" or not to_host or not isinstance(call.func, ast.Attribute):
        return None
    around = [a for a in file.ancestors(call) if isinstance(a, ast.Call)]
    if any(histories.called_name(each) in _PUTTERS for each in around):
        return None
    bound = [ast.unparse(target).lower() for target, _ in bindings.pairs(file.statement(call))]
    if any("cpu" in name or "host" in name for name in bound):
        return None  # called so on purpose
    parent = file.parent(call)
    copied = isinstance(parent, ast.Attribute) and parent.attr == "clone"
    text = "" if copied or not _shares_memory(file, call.func.value) else ".clone()"
    return Cause(placed.facts["at"], rewriting.replace_method(file, call, text))


def of_index(steps: list[histories.Step]) -> Cause | None:
    """`rows = torch.randint(n, (8,), device=device)`, which only picks from tables on the host: without the device."""
    placed = _placed(steps)
    if placed is None or placed.facts["action"] != "created":
        return None
    file, call = placed.file, placed.call
    if file is None or call is None or not placed.facts["device"].startswith("cuda"):
        return None
    scope, statement = name_scopes.function_of(file, call), file.statement(call)
    if statement is None:
        return None
    bound = [target.id for target, _ in bindings.pairs(statement) if isinstance(target, ast.Name)]
    reads = file.find(scope, ("load", bound[0])) if len(bound) == 1 else []
    if not reads or not all(is_picking(file, node) for node in reads):
        return None
    return Cause(placed.facts["at"], rewriting.without_argument(file, call, "device"))


def is_picking(file: source.Source, node: ast.AST) -> bool:
    """Whether an expression is what a table is indexed with, or part of that: `index` in `x[index + 1]`."""
    inside = node
    for around in file.ancestors(node):
        if isinstance(around, ast.Subscript):
            return around.slice is inside
        if not isinstance(around, (ast.BinOp, ast.UnaryOp, ast.Tuple)):
            return False
        inside = around
    return False


def _shares_memory(file: source.Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether an expression is a tensor that somebody else has as well: a copy of it is a tensor of its own."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PASSES_ON:
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    if not isinstance(node, ast.Name):
        return isinstance(node, (ast.Attribute, ast.Subscript))
    scope = name_scopes.function_of(file, node)
    bound = [value for s in bindings.binders(scope, node.id) for target, value in bindings.pairs(s)
             if isinstance(target, ast.Name) and target.id == node.id]  # fmt: skip
    computed = bound and all(isinstance(value, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.Call)) for value in bound)
    calls = [value for value in bound if isinstance(value, ast.Call)]
    return not computed or depth > 3 or any(_shares_memory(file, value, depth + 1) for value in calls)


def _placed(steps: list[histories.Step]) -> histories.Step | None:
    """The last step that decided the device."""
    return next((step for step in reversed(steps) if step.facts["action"] != "computed"), None)
