"""The lines that gave a program a value without being on its way: a Dataset, a collate function, an optimizer's state,
a generator, the hooks of saved tensors.

Reads trees and live frames; runs nothing.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING

from locus.blame import siblings
from locus.blame.candidates import Cause, location_of
from locus.fixing import device_text, rewriting
from locus.program import batches, bindings, histories, makers, source, trails, values
from locus.program.links import Link
from locus.program.text_index import last_line

if TYPE_CHECKING:
    from locus.program.shapes import Edit, Step

_Function = ast.FunctionDef | ast.Lambda


def of_sample(tensor: object, steps: list[histories.Step], frames: list[types.FrameType]) -> Cause | None:
    """The line of a Dataset that gave a sample: the `return` that computed it, or that took it from what it keeps."""
    fetchers = [frame.f_locals.get("self") for frame in frames if frame.f_code.co_filename.endswith("fetch.py")]
    dataset = values.get_attribute(fetchers[0], "dataset") if fetchers else values.MISSING
    last = next((s.facts["at"] for s in reversed(steps) if s.facts["at"]["line"]), None)
    for file, tree in bindings.class_trees(dataset) if dataset is not values.MISSING else ():
        for method in tree.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in ("__getitem__", "__iter__"):
                continue
            nodes = [node for node in ast.walk(method) if isinstance(node, (ast.Return, ast.Yield))]
            given = [(node, node.value) for node in nodes if node.value is not None]
            for node, value in given:
                if last is not None and last["file"] == file.file and node.lineno <= last["line"] <= last_line(node):
                    return _given(tensor, file, value)
            for _, value in given:
                for part in ast.walk(value):
                    if isinstance(part, ast.Attribute) and ast.unparse(part.value) == method.args.args[0].arg:
                        kept = values.get_attribute(dataset, part.attr)
                        held = kept.values() if isinstance(kept, dict) else kept
                        if isinstance(kept, (dict, list, tuple)) and any(item is tensor for item in held):
                            return _given(tensor, file, value)
    return Cause(last, None) if last is not None else None


def _given(tensor: object, file: source.Source, value: ast.expr) -> Cause:
    """Samples are gathered on the host: what is elsewhere is brought there where it is given."""
    edit = rewriting.append_call(file, value, ".cpu()") if values.is_tensor(tensor) and tensor.is_cuda else None
    return Cause(location_of(file, value), edit, file.flat(value))


def of_batch(steps: list[histories.Step], device: str, users: list[types.FrameType]) -> Cause | None:
    """The line in a Dataset or a collate function that made what a loader gave, where those know about devices."""
    number = next((n for n, step in enumerate(steps) if step.facts["action"] == "received"), 0)
    for step in reversed(steps[:number]):
        if step.facts["at"]["line"] == steps[number].facts["at"]["line"] or step.file is None or step.node is None:
            continue  # by the loader itself
        scope = next((a for a in step.file.ancestors(step.node) if isinstance(a, source.Function)), None)
        if scope is None or step.facts["explicit"] or not device_text.is_mentioned_in(scope):
            return None
        running = [frame.f_code for frame in users if frame.f_code.co_filename == step.file.file]
        if any(step.file.function_at(code.co_firstlineno, code.co_name) is scope for code in running):
            return None  # not the loader's: it was made there and given to it
        return Cause(step.facts["at"], _moved_like_the_rest(step, scope, device, users))
    return None


def _moved_like_the_rest(
    step: histories.Step, scope: ast.AST, device: str, users: list[types.FrameType]
) -> Edit | None:
    """`torch.stack(ys)` -> `torch.stack(ys).to(device)`, in a function that moves the other parts of the batch."""
    if step.file is None or step.call is None or not any(bindings.is_move(node) for node in ast.walk(scope)):
        return None
    words = device_text.write(step.file, step.call, device, users)
    return None if words.startswith('"') else rewriting.append_call(step.file, step.call, f".to({words})")


def of_generator(trail: trails.Trail, device: str, users: list[types.FrameType]) -> Cause | None:
    """The line that made a generator."""
    link = next((link for link in trail.links if link.how == "made"), None)
    if link is None:
        return None
    file, edit = link.context.file, None
    made = link.node
    if isinstance(made, ast.Call) and histories.called_name(made) == "Generator" and device.startswith("cuda"):
        edit = rewriting.device_argument(file, made, device_text.write(file, made, device, users))
    return Cause(location_of(file, made), edit)


def of_dropped(trail: trails.Trail) -> tuple[str, Edit] | None:
    """`x.to(device)` by itself, in a function that passed the value on as `x`, or for an object that gives a new one
    then: x, and the edit that keeps it."""
    for link in trail.links:
        name = link.node.id if link.how in ("argument", "attribute") and isinstance(link.node, ast.Name) else ""
        if link.lost and link.name and link.context.frame is not None:
            name = link.name
        for statement in bindings.dropped_moves(link.context.scope, name) if name else ():
            is_between = link.lost or statement.lineno < link.statement.lineno
            if is_between and (not link.lost or _gives_another(link, statement)):
                edit = link.context.file.edit([source.Change.before(statement, f"{name} = ")])
                return None if edit is None else (name, edit)
    return None


def of_thrown_away(trail: trails.Trail) -> tuple[str, Edit] | None:
    """`x, _ = x.to(device), y.to(device)`, for y: the edit that binds what is moved to its own name."""
    for link in trail.links:
        for statement in batches.statements(link.context.scope) if link.name else ():
            has_copied = histories.has_copied(link.context.file.file, statement.lineno)
            for target, value in bindings.pairs(statement) if has_copied else ():
                moved = value.func.value if bindings.is_move(value) and _is_never_read(link, target) else None
                if moved is not None and ast.unparse(moved) == link.name and siblings.is_bound_at(link, moved):
                    edit = link.context.file.edit([source.Change.replace(target, link.name)])
                    return None if edit is None else (link.name, edit)
    return None


def _is_never_read(link: Link, target: ast.expr) -> bool:
    """Whether a variable is one of those that nobody reads: `_`."""
    name = target.id if isinstance(target, ast.Name) else ""
    return name.startswith("_") and not link.context.file.find(link.context.scope, ("load", name))


def _gives_another(link: Link, statement: ast.Expr) -> bool:
    """Whether the object's own `to()` gives a new object, and leaves the old one as it was."""
    held = values.name_in(link.context.frame, link.name) if link.context.frame is not None else values.MISSING
    method = statement.value.func.attr if bindings.is_move(statement.value) else ""
    for _, tree in bindings.class_trees(held) if held is not values.MISSING else ():
        for each in tree.body:
            if isinstance(each, ast.FunctionDef) and each.name == method:
                given = [
                    node.value for node in ast.walk(each) if isinstance(node, ast.Return) and node.value is not None
                ]
                return bool(given) and all(ast.unparse(node) != bindings.self_name(each) for node in given)
    return False


def of_state(name: str, users: list[types.FrameType]) -> Cause | None:
    """A statement that should have moved an entry of an optimizer's state, and does not keep what it moves."""
    key = name.rpartition("[")[2].rstrip("]")
    files = {frame.f_code.co_filename: source.load(frame.f_code.co_filename) for frame in users}
    for file in [each for each in files.values() if each is not None]:
        left = file.once(_left_elements).get(key)
        if left is not None:
            node, target = left
            text = f"{file.segment(target)} = "
            keeps = file.edit([source.Change.before(node, text)]) if isinstance(node, ast.Expr) else None
            return Cause(location_of(file, node), keeps)
    return None


def _left_elements(file: source.Source) -> dict[str, tuple[ast.stmt, ast.Subscript]]:
    """The first statements of a file that leave `state[key]` where it is, by the key: what they moved is not kept."""
    found: dict[str, tuple[ast.stmt, ast.Subscript]] = {}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Expr) and bindings.is_move(node.value):
            target = node.value.func.value
        elif isinstance(node, ast.Assign):
            target = node.value
        else:
            continue
        if not isinstance(target, ast.Subscript):
            continue
        if isinstance(node, ast.Expr) or ast.unparse(node.targets[0]) == ast.unparse(target):
            found.setdefault(ast.unparse(target.slice).replace("'", '"'), (node, target))
    return found


def is_made_anew(step: histories.Step) -> bool:
    """`torch.zeros(p.shape)`, not zeros_like(p): on the CPU wherever the parameter is, before and after it is moved."""
    name = histories.called_name(step.call) if step.call is not None else ""
    return name in makers.FACTORIES and not name.endswith("_like") and not step.facts["explicit"]


def of_unpacked(history: list[Step], device: str, users: list[types.FrameType]) -> Cause | None:
    """The function that should have brought a saved tensor back: the second of saved_tensors_hooks(pack, unpack)."""
    if history:
        return None  # PyTorch calls the hooks inside the operator, where nothing is noted
    files = {frame.f_code.co_filename: source.load(frame.f_code.co_filename) for frame in users}
    found: list[tuple[source.Source, _Function | None, _Function | None]] = []
    for file in [each for each in files.values() if each is not None]:
        for call in file.calls(file.tree, "saved_tensors_hooks"):
            if len(call.args) == 2:
                found.append((file, _function(file, call.args[0]), _function(file, call.args[1])))
    if len(found) != 1:
        return None
    file, pack, unpack = found[0]
    if unpack is None:
        return None
    given = _returned(unpack)
    if not given:
        return Cause(location_of(file, unpack), None)
    words = _packed_device(pack, unpack) or device_text.write(file, given[-1], device, users)
    edit = rewriting.append_call(file, given[-1], f".to({words})") if len(given) == 1 else None
    return Cause(location_of(file, given[-1]), edit)


def _returned(function: _Function) -> list[ast.expr]:
    if isinstance(function, ast.Lambda):
        return [function.body]
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def _packed_device(pack: _Function | None, unpack: _Function) -> str:
    """`where` of `where, tensor = packed`, where the first hook gave `tensor.device, tensor.cpu()`."""
    packed = _returned(pack)[-1:] if pack is not None else []
    parts = packed[0].elts if packed and isinstance(packed[0], ast.Tuple) else []
    devices = [n for n, part in enumerate(parts) if isinstance(part, ast.Attribute) and part.attr == "device"]
    if not devices or not unpack.args.args:
        return ""
    number, given = devices[0], unpack.args.args[0].arg
    for statement in () if isinstance(unpack, ast.Lambda) else batches.statements(unpack):
        for target, value in bindings.pairs(statement):
            if isinstance(value, ast.Name) and value.id == given and isinstance(target, ast.Tuple):
                name = target.elts[number] if len(target.elts) == len(parts) else None
                if isinstance(name, ast.Name):
                    return name.id
    return f"{given}[{number}]"


def _function(file: source.Source, node: ast.expr) -> _Function | None:
    if isinstance(node, ast.Lambda):
        return node
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    found = [n for n in file.find(file.tree, ("definition", name)) if isinstance(n, ast.FunctionDef)]
    return found[0] if len(found) == 1 else None
