"""Which module was left behind, and the line that made it: that is where a person would move it.

Reads modules, the moves and constructions that were noted, and trees. Moves nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from locus.blame.candidates import Candidates, Cause, location_of
from locus.fixing import device_text, name_scopes, rewriting
from locus.program import bindings, contexts, histories, moments, source, values

if TYPE_CHECKING:
    import torch

    from locus.program import objects
    from locus.program.names import Match
    from locus.program.shapes import Location, Operand


_BUILDERS = ("__init__", "__post_init__")
"""The methods that make an object: what they make is there when the object is moved."""


def gather(found: Candidates, match: Match, facts: Operand, device: str, users: list[types.FrameType]) -> None:
    """Where the module was made that was left behind: the largest one around the tensor that is wholly where it is; or
    where the tensor itself was made, after its module had been moved."""
    holder = match.way.holder
    if holder is None or not values.is_module(holder.module):
        return
    for module in _chain(holder):
        if type(module).__module__.startswith("torch.nn.parallel"):
            continue  # a wrapper: what is in it was made elsewhere
        left = _is_wholly_on(module, facts["device"]) or _is_left_around(module, facts["device"])
        if left or _is_mostly_left(module, facts["device"]):
            made = _construction(module, facts["device"], device, users)
            if made is not None:
                found.add("move_module", made, ["module_left"])
            break
    late = _late_tensor(holder.module, facts) or _put_later(holder, match.way.attribute, device, users)
    if late is not None and late.edit is None:
        own = _construction(holder.module, facts["device"], device, users)
        if own is not None and own.place["line"] == late.place["line"]:
            late = late._replace(edit=own.edit)  # `self.head = nn.Linear(…)` in forward(): moved where it is made
    if late is not None:
        found.add("factory_device", late, ["replaced_after_move"])
        if not late.place["function"].endswith(_BUILDERS):
            found.note("move_module", "never_reaches")


def _late_tensor(module: torch.nn.Module, facts: Operand) -> Cause | None:
    """A parameter or buffer that was made after its module had been moved, or is made in a method other than the one
    that makes the module: the line that made it. Moving the module where it is made would not reach it."""
    replaced_data = _data_put(facts)
    if replaced_data is not None and moments.moves_of(module)[0] is not None:
        return replaced_data
    own = [step for step in facts["history"] if step["at"]["line"] and not step["explicit"]]
    made = [step for step in own if step["action"] == "created"]
    placed = (made or own)[-1:]
    if not placed or moments.moves_of(module)[0] is None:
        return None
    replaced = not placed[0]["at"]["function"].endswith(_BUILDERS)
    if not made and not replaced:
        return None
    return Cause(placed[0]["at"], facts["edits"].get("factory_device"))


def _data_put(facts: Operand) -> Cause | None:
    """`p.data = mean.float()`, in a function that has ended: where a parameter got other memory."""
    last = facts["history"][-1]["at"] if facts["history"] else None
    file = source.load(last["file"]) if last is not None else None
    for statement in file.statements_at(last["line"])[-1:] if file is not None and last is not None else ():
        for target, value in bindings.pairs(statement):
            if file is not None and isinstance(target, ast.Attribute) and target.attr == "data":
                edit = rewriting.append_call(file, value, f".to({file.flat(target.value)}.device)")
                return Cause(location_of(file, value), edit)
    return None


def is_data_put(steps: list[histories.Step]) -> bool:
    """Whether the last thing that was done made a tensor the `.data` of a parameter."""
    statement = steps[-1].file.statement(steps[-1].node) if steps and steps[-1].file and steps[-1].node else None
    return any(isinstance(target, ast.Attribute) and target.attr == "data" for target, _ in bindings.pairs(statement))


def _put_later(holder: objects.Holder, attribute: str, device: str, users: list[types.FrameType]) -> Cause | None:
    """`emb.weight.data = torch.from_numpy(rows)` in a function that is running, after the module was moved."""
    tensor = values.get_attribute(holder.module, attribute)
    if not values.is_tensor(tensor) or moments.moves_of(holder.module)[0] is None:
        return None
    for context, _, _, value in contexts.stores_outside(users, tensor, "data"):
        words = device_text.write(context.file, value, device, users)
        return Cause(location_of(context.file, value), rewriting.append_call(context.file, value, f".to({words})"))
    return None


def _chain(holder: objects.Holder) -> Iterator[torch.nn.Module]:
    """The modules from the root to the holder of the tensor."""
    module = holder.root
    yield module
    for part in holder.path.split(".") if holder.path else ():
        module = (values.attributes(module).get("_modules") or {}).get(part)
        if module is None:
            return
        yield module


def _is_wholly_on(module: torch.nn.Module, device: str) -> bool:
    tensors = [t for inner in module.modules() for table in (inner._parameters, inner._buffers) for t in table.values()]
    return all(str(t.device) == device for t in tensors if t is not None)


def _is_left_around(module: torch.nn.Module, device: str) -> bool:
    """Whether a module was made around others that had been moved before, and all that was made with it was left."""
    given = [part for inner in module.modules() if not moments.is_made_with(inner, module) for part in inner.modules()]
    others = {id(part) for part in given}
    own = [inner for inner in module.modules() if id(inner) not in others]
    held = [t for inner in own for table in (inner._parameters, inner._buffers) for t in table.values()]
    tensors = [t for t in held if t is not None]
    return bool(others) and bool(tensors) and all(str(t.device) == device for t in tensors)


def _is_mostly_left(module: torch.nn.Module, device: str) -> bool:
    """Whether nobody moved a module, and only a few of its parts are elsewhere: put there later, from outside. A class
    that places its own parts is another matter: there the part that it forgot is to be fixed.
    """
    parts = [part for part in module.children() if next(part.parameters(), None) is not None]
    left = [part for part in parts if _is_wholly_on(part, device)]
    if 2 * len(left) <= len(parts) or moments.moves_of(module)[0] is not None:
        return False
    moved = [moments.moves_of(part)[0] for part in parts]
    own = f"{type(module).__name__}."
    return not any(place is not None and place["function"].startswith(own) for place in moved)


def _construction(module: torch.nn.Module, wrong: str, device: str, users: list[types.FrameType]) -> Cause | None:
    callers = moments.made_at(module)
    if not callers:
        return None
    chosen = next((n for n in range(len(callers)) if not moments.makes_others(module, n, wrong)), 0)
    place = callers[chosen]
    file = source.load(place["file"])
    node = _call_at(file, place) if file is not None else None
    builds = file is not None and node is not None and isinstance(file.parent(node), ast.Return)
    if chosen + 1 < len(callers) and builds and file is not None and node is not None:
        # `return nn.Sequential(…)`: a function that only builds; who asked for it knows where it shall be.
        scope = next((a for a in file.ancestors(node) if isinstance(a, source.Function)), None)
        if scope is not None and not device_text.is_mentioned_in(scope):
            place = callers[chosen + 1]
            file = source.load(place["file"])
            node = _call_at(file, place) if file is not None else None
    bound = _keeper(file, node, module, users)
    if bound is not None:
        file, node = bound
    if file is None or node is None:
        return Cause(place, None)
    outer = file.parent(node)
    if isinstance(outer, ast.Attribute) and bindings.is_move(file.parent(outer)):
        return None  # moved where it was made: what is missing came later
    element = _element_of(node)
    words = device_text.write(file, element, device, users) if element is not None else ""
    if element is not None and name_scopes.is_comprehended(file, element, words):
        return Cause(location_of(file, node), rewriting.append_call(file, element, f".to({words})"))
    words = device_text.write(file, node, device, users)
    handed_in = _handed_in(file, node, users) if words.startswith('"') else None
    if handed_in is not None:
        at, given = handed_in
        words = device_text.write(at, given, device, users)
        return Cause(location_of(at, given), rewriting.append_call(at, given, f".to({words})"))
    return Cause(location_of(file, node), rewriting.append_call(file, node, f".to({words})"))


def _handed_in(
    file: source.Source, node: ast.AST, users: list[types.FrameType]
) -> tuple[source.Source, ast.expr] | None:
    """`student` of `teacher = Ema(student)`, where `Ema` copies what it is given and knows no device, and the one who
    calls it does: what is copied is moved there."""
    scope = name_scopes.function_of(file, node)
    copies = isinstance(node, ast.Call) and histories.called_name(node) in ("deepcopy", "copy")
    copied = node.args[0] if isinstance(node, ast.Call) and copies and node.args else None
    if not isinstance(scope, ast.FunctionDef) or not isinstance(copied, ast.Name):
        return None
    if copied.id not in bindings.parameters(scope):
        return None
    holder = file.parent(scope)
    called = holder.name if scope.name == "__init__" and isinstance(holder, ast.ClassDef) else scope.name
    found = [(at, bindings.argument_of(call, file, scope, copied.id)) for at, call in contexts.calls_of(users, called)]
    given = [(at, argument) for at, argument in found if argument is not None]
    if len(given) != 1 or not device_text.is_mentioned_in(given[0][0].scope):
        return None
    return given[0][0].file, given[0][1]


def _element_of(node: ast.AST) -> ast.expr | None:
    """`w.clone()` of `nn.ParameterList(nn.Parameter(w.clone()) for w, d in pairs)`."""
    given = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
    if not isinstance(given, (ast.GeneratorExp, ast.ListComp)):
        return None
    element = given.elt
    if isinstance(element, ast.Call) and histories.called_name(element) == "Parameter" and element.args:
        return element.args[0]
    return element


def _call_at(file: source.Source, place: Location) -> ast.AST | None:
    """The call that stands at a LOC, whose columns count characters."""
    first, last = file.line(place["line"]), file.line(place["end_line"])
    column, end = len(first[: place["column"]].encode()), len(last[: place["end_column"]].encode())
    node = file.at(place["line"], place["end_line"], column, end)
    return node if isinstance(node, ast.Call) else None


def _keeper(
    file: source.Source | None, node: ast.AST | None, module: torch.nn.Module, users: list[types.FrameType]
) -> tuple[source.Source, ast.AST] | None:
    """`model` of `self.model = model`, in the object that trains a module which was made as an argument of its call.

    Where the object knows about devices and the place that made the module does not, moving is the object's business.
    """
    if file is None or node is None:
        return None
    if isinstance(file.parent(node), (ast.Assign, ast.AnnAssign, ast.Return)) and not _has_served(module):
        return None
    for frame in users:
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if owner is None:
            continue
        held = values.attributes(owner)
        kept = [name for name, value in [*held.items(), *(held.get("_modules") or {}).items()] if value is module]
        for its_file, tree in bindings.class_trees(owner) if kept else ():
            if not device_text.is_mentioned_in(tree):
                continue
            for statement in ast.walk(tree):
                if isinstance(statement, ast.Assign) and _is_passed_on(statement.value):
                    if any(isinstance(t, ast.Attribute) and t.attr in kept for t in statement.targets):
                        return its_file, statement.value
    return None


def _has_served(module: torch.nn.Module) -> bool:
    """Whether a module has been trained where it is: it is there on purpose up to where somebody else takes it."""
    return any(parameter.grad is not None for parameter in module.parameters())


def _is_passed_on(node: ast.AST) -> bool:
    """`model`, `model.eval()`, `model.requires_grad_(False)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not histories.is_namespace(node.func):
        node = node.func.value
    return isinstance(node, ast.Name)
