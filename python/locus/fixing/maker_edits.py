"""Edits where a tensor was made, loaded or drawn: a device argument, a map_location, a generator of the right device.
Part of locus.fixing.edits.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import torch

from locus.fixing import name_scopes, rewriting
from locus.fixing.module_edits import scopes
from locus.fixing.rewriting import add_argument, append_call, device_argument
from locus.program import batches, bindings, histories, makers, source, values
from locus.program.links import flow_of
from locus.program.shapes import Edit
from locus.program.source import Change

if TYPE_CHECKING:
    from locus.fixing.edits import Request


def factory_device(request: Request) -> Edit | None:
    """`torch.zeros(3)` -> `torch.zeros(3, device=device)`."""
    if isinstance(request.tensor, torch.Generator):
        return _draw_there(request)
    file, call = _creation(request)
    if call is not None and file is not None:
        words = request.words(file, call)
        if words.startswith('"'):
            words = _given_there(request, file, call) or words
        if words.startswith('"') and _has_words_at_use(request, file, call):
            return None
        whole = _met_on_host(file, call)
        if whole is not None and not request.facts["written"]:
            return append_call(file, whole, f".to({words})")
        draw = _draw_of(file, call)
        if draw is not None:
            return append_call(file, draw, f".to({words})")
        return device_argument(file, call, words, rewriting.is_drawn_on(call, request.device, request.users))
    return _move_where_made(request)


def _met_on_host(file: source.Source, call: ast.Call) -> ast.expr | None:
    """`torch.outer(torch.arange(n), rates)`, of `rates` that the function has made on the host as well: all that the
    statement computes, which is to be moved when that is done."""
    statement, scope = file.statement(call), name_scopes.function_of(file, call)
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    flow = flow_of(file, scope) if value is not None else None
    if value is None or flow is None or not isinstance(value, (ast.Call, ast.BinOp)):
        return None
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bindings.parameters(scope):
            for each in flow.reaching(node):
                made = [n for n in ast.walk(each.value or node) if isinstance(n, ast.Call) and makers.makes_tensor(n)]
                host = [n for n in made if not histories.names_device(n) and not _is_number(n)]
                if each.kind == "assign" and host and not any(map(histories.names_device, _calls_in(each.value))):
                    return value
    return None


def _calls_in(node: ast.AST | None) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)] if node is not None else []


def _is_number(call: ast.Call) -> bool:
    """`torch.tensor(0.5)`, which goes with tensors of any device."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and histories.called_name(call) == "tensor"


def _draw_of(file: source.Source, call: ast.Call) -> ast.Call | None:
    """`Beta(torch.tensor(0.4), …).sample()` around the call that made a parameter of the distribution: where the
    draw is made decides what is drawn, so that the draw is moved and not what it is made of."""
    inside: ast.AST = call
    for around in file.ancestors(call):
        if isinstance(around, ast.Call) and isinstance(around.func, ast.Attribute) and around.func.value is inside:
            if around.func.attr in ("sample", "rsample") and isinstance(inside, ast.Call):
                return around
        if isinstance(around, (ast.stmt, ast.Lambda)):
            return None
        inside = inside if isinstance(around, ast.Attribute) and around.value is inside else around
    return None


def _given_there(request: Request, file: source.Source, call: ast.Call) -> str:
    """`x.device`, of what a helper was given that made the tensor and has returned: `mask(x)` is called at the use."""
    _, node = request.place() or (None, None)
    helper = name_scopes.function_of(file, call)
    frame = request.use.frame if request.use is not None else None
    if frame is None or not isinstance(node, ast.Call) or histories.called_name(node) != getattr(helper, "name", None):
        return ""
    for name in bindings.parameters(helper):
        given = bindings.argument_of(node, file, helper, name)
        value = values.evaluate(given, frame) if given is not None else None
        if values.is_tensor(value) and str(value.device) == request.device and not file.find(helper, ("store", name)):
            return f"{name}.device"
    return ""


def _has_words_at_use(request: Request, file: source.Source, call: ast.Call) -> bool:
    """Whether a helper that knows of no device is called by a place that does: `mask(n)` -> `mask(n).to(x.device)`.
    A number in the helper would be right for one card only.
    """
    place, node = request.place() or (None, None)
    helper = name_scopes.function_of(file, call)
    if place is None or not isinstance(node, ast.Call):
        return False
    is_called_here = histories.called_name(node) == getattr(helper, "name", None)
    return is_called_here and not request.facts["written"] and not request.words(place, node).startswith('"')


def _draw_there(request: Request) -> Edit | None:
    """`torch.randperm(n, generator=g)` -> `torch.randperm(n, generator=g, device=g.device)`: drawn where g is."""
    use = request.use
    if use is None or use.file is None:
        return None
    call = use.node
    if not isinstance(call, ast.Call) or histories.called_name(call) not in makers.FACTORIES:
        return None
    given = next((k.value for k in call.keywords if k.arg == "generator"), None)
    if given is None or any(k.arg == "device" for k in call.keywords):
        return None
    simple = isinstance(given, (ast.Name, ast.Attribute))
    words = f"{use.file.flat(given)}.device" if simple else f'"{request.facts["device"]}"'
    return add_argument(use.file, call, f"device={words}")


def _move_where_made(request: Request) -> Edit | None:
    """`lam = Beta(a, b).sample()` -> `… .to(device)`: made inside a library, and kept under a name; or, where it is
    written to and can't be moved at the use, the call that made it."""
    inside = ast.walk(request.node) if request.node is not None else ()
    written_in = [ast.unparse(node) for node in inside if isinstance(node, (ast.Name, ast.Attribute))]
    names_ = {request.facts["name"], *written_in}
    for step in reversed(request.steps):
        if step.call is None or step.file is None:
            continue
        statement = step.file.statement(step.call)
        targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is step.call else []
        named = len(targets) == 1 and ast.unparse(targets[0]) in names_
        if isinstance(statement, ast.Expr) and statement.value is step.call:
            continue  # nobody takes what the call gives
        if named or request.facts["written"]:
            return append_call(step.file, step.call, f".to({request.words(step.file, step.call)})")
    return None


def generator_device(request: Request) -> Edit | None:
    """`torch.Generator()` -> `torch.Generator(device="cuda:0")`."""
    if not isinstance(request.tensor, torch.Generator):
        return None
    wanted = {request.facts["name"], request.facts["expression"], f"self.{request.facts['name'].rpartition('.')[2]}"}
    trees = list(scopes(request))
    for frame in request.users[:1]:
        trees += bindings.class_trees(frame.f_locals.get("self"))
    for file, scope in trees:
        for node in file.find(scope, *(("assign", text) for text in wanted if text)):
            if isinstance(node, ast.Assign) and any(ast.unparse(target) in wanted for target in node.targets):
                calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
                made = next((call for call in calls if histories.called_name(call) == "Generator"), None)
                if made is not None:
                    return device_argument(file, made, request.words(file, made))
    return None


def map_location(request: Request) -> Edit | None:
    """`torch.load(path)` -> `torch.load(path, map_location=device)`."""
    for step in request.steps:
        if step.call is not None and step.file is not None and histories.called_name(step.call) == "load":
            words = request.words(step.file, step.call)
            given = next((k for k in step.call.keywords if k.arg == "map_location"), None)
            if given is not None:
                return step.file.edit([Change.replace(given.value, words)])
            if len(step.call.args) > 1:
                return step.file.edit([Change.replace(step.call.args[1], words)])
            return add_argument(step.file, step.call, f"map_location={words}")
    return None


def _creation(request: Request) -> tuple[source.Source | None, ast.Call | None]:
    """The call that made the tensor: from its history, else the expression itself, else the variable's assignment."""
    placed = next((step for step in reversed(request.steps) if step.facts["action"] != "computed"), None)
    if placed is not None and placed.facts["action"] == "moved" and placed.facts["explicit"]:
        return None, None  # where it was made says nothing: it was put where it is later
    for step in request.steps:
        made = step.facts["action"] in ("created", "foreign")
        if made and step.call is not None and makers.makes_tensor(step.call):
            return (None, None) if _serves_others(request, step) else (step.file, step.call)
    if request.steps and not isinstance(request.tensor, torch.Generator):
        return None, None
    place, node = request.place() or (None, None)
    if isinstance(node, ast.Call) and makers.makes_tensor(node):
        return place, node
    name = request.facts["name"]
    for file, scope in scopes(request) if name.isidentifier() else ():
        for statement in file.find(scope, ("assign", name)):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                named = [t.id for t in statement.targets if isinstance(t, ast.Name)]
                if named == [name] and makers.makes_tensor(statement.value):
                    return file, statement.value
    return None, None


def _serves_others(request: Request, made: histories.Step) -> bool:
    """Whether what was made serves more than what another function computed of it and keeps: a scaler that was fitted
    to the data. Moving the data would not be meant."""
    later = request.steps[request.steps.index(made) + 1 :]
    elsewhere = bool(later) and later[-1].facts["at"]["function"] != made.facts["at"]["function"]
    if not elsewhere or request.facts["kind"] != "object-attribute" or request.facts["written"]:
        return False
    if made.file is None or made.call is None:
        return False
    scope, statement = name_scopes.function_of(made.file, made.call), made.file.statement(made.call)
    if statement is None:
        return False
    named = {name for target, _ in bindings.pairs(statement) for name in batches.targets(target)}
    return len(made.file.find(scope, *(("load", name) for name in named))) > 1
