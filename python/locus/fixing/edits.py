"""Edits that could fix a placement: each a line of the program, rewritten in its own style. The engine chooses.

Changes the exact piece of source that needs it and leaves everything else as it is; where that can't be done, there
is no edit. Nothing is written to disk here.
"""

from __future__ import annotations

import ast
import contextlib
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from locus.fixing import caches, device_text, rewriting
from locus.fixing.module_edits import module_list, move_module, move_root, optimizer_state, register_buffer, scopes
from locus.fixing.rewriting import (
    add_argument,
    append_call,
    device_argument,
    ends_line,
    indent_of,
    moves_itself,
    starts_line,
    statements_after,
)
from locus.program import batches, bindings, expressions, histories, makers, names, places, source, values
from locus.program.shapes import Edit
from locus.program.source import Change

if TYPE_CHECKING:
    from locus.program.shapes import Case, Operand


@dataclass
class Request:
    """What is known of the operand that an edit is wanted for."""

    case: Case
    facts: Operand
    tensor: torch.Tensor | None
    rule: str
    device: str
    """Where the operand should be."""
    use: expressions.Use | None
    node: ast.AST | None
    nodes: list[ast.AST | None]
    others: list[int]
    """The operands on the other side."""
    frames: list[types.FrameType]
    users: list[types.FrameType]
    match: names.Match | None
    names: names.Names
    steps: list[histories.Step]

    def words(self, file: source.Source, node: ast.AST) -> str:
        """The device where the operand should be, as it would be written at `node`."""
        placed = [n for n in self.others if self.case["operands"][n]["device"] == self.device]
        others = [(self.nodes[n], self.use.file) for n in placed if self.use is not None and self.nodes[n] is not None]
        return device_text.write(file, node, self.device, self.users, others)


def operand_edits(request: Request) -> dict[str, Edit]:
    """Every edit kind that applies to the operand, with its EDIT."""
    found: dict[str, Edit] = {}
    kind_of_case = request.case["kind"]
    if kind_of_case in _ONLY:
        ways = {kind: _WAYS[kind] for kind in _ONLY[kind_of_case]}
    else:
        # Where the operator does not ask for the CPU, moving things there fixes nothing. Results are compared there.
        wanted = request.device != "cpu" or request.rule in ("cpu", "index")
        compared = {"move_at_use": compare_on_host} if request.case["op"] == "equal" else {}
        to_host = {kind: _WAYS[kind] for kind in ("move_index", "move_at_use", "cpu_lengths", "generator_device")}
        ways = compared if not wanted else _WAYS if request.device != "cpu" else to_host
    for kind, make in ways.items():
        edit = None
        with contextlib.suppress(BaseException):  # an odd tree, or object, must not cost the other edits
            edit = make(request)
        if edit is not None and places.is_user_file(edit["file"]):
            found[kind] = edit
    return found


# -- at the use


def move_at_use(request: Request) -> Edit | None:
    """`self.cache` -> `self.cache.to(x.device)`, where it is used."""
    file, node = _place(request)
    if node is None or request.facts["written"] or not values.is_tensor(request.tensor):
        return None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _gives_several(node):
        node = node.func.value  # a tuple has no .to()
    if request.device == "cpu":
        return append_call(file, node, ".cpu()")
    return append_call(file, node, f".to({request.words(file, node)})")


def _gives_several(call: ast.Call) -> bool:
    """`mask.nonzero(as_tuple=True)`, `x.split(2)`: a tuple of tensors."""
    as_tuple = any(keyword.arg == "as_tuple" for keyword in call.keywords)
    return as_tuple or histories.called_name(call) in ("split", "chunk", "unbind", "tensor_split")


def compare_on_host(request: Request) -> Edit | None:
    """`torch.equal(a, b)` -> `torch.equal(a.cpu(), b)`."""
    file, node = _place(request)
    if node is None or not values.is_tensor(request.tensor):
        return None
    return append_call(file, node, ".cpu()")


def move_index(request: Request) -> Edit | None:
    is_index = request.rule == "index" or request.facts["argument"] in ("index", "indices")
    return move_at_use(request) if is_index else None


def cpu_lengths(request: Request) -> Edit | None:
    """`lengths` -> `lengths.cpu()`, for arguments that must be on the CPU."""
    file, node = _place(request)
    return append_call(file, node, ".cpu()") if node is not None and request.rule == "cpu" else None


def handoff(request: Request) -> Edit | None:
    """`h` -> `h.to("cuda:1")`, where a tensor is handed to a stage that lives on another GPU."""
    if not (request.facts["device"].startswith("cuda") and request.device.startswith("cuda")):
        return None
    place: tuple[source.Source, ast.AST] | None = None
    for frame in request.users:
        # The outermost call that still passes this very tensor on.
        inner = next((f for f in request.frames if f.f_back is frame), None)
        use = expressions.Use(frame, inner)
        node = expressions.argument_node(use, request.tensor)
        if node is None:
            # In an expression of the function itself: its caller may have passed it in.
            code = frame.f_code
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
            if place is None and any(value is request.tensor for value in given):
                continue
            break
        place = (use.file, node)
    if place is None:
        place = _place(request)
    file, node = place
    if node is None or request.facts["written"]:
        return None
    text = device_text.of_looped_module(file, node, request.users) or request.words(file, node)
    return append_call(file, node, f".to({text})")


def cpu_numpy(request: Request) -> Edit | None:
    """`x.numpy()` -> `x.cpu().numpy()`."""
    use = request.use
    if request.case["kind"] != "host-access" or use is None or use.file is None:
        return None
    node = request.node
    method = use.node.func if isinstance(use.node, ast.Call) and isinstance(use.node.func, ast.Attribute) else None
    if method is not None and method.attr in ("numpy", "__array__", "tolist"):
        node = method.value
    if node is None:
        return None
    detach = request.facts["requires_grad"] and "detach" not in ast.dump(node)
    return append_call(use.file, node, ".detach().cpu()" if detach else ".cpu()")


def synchronize(request: Request) -> Edit | None:
    """torch.cuda.synchronize() before a line that reads too early."""
    use = request.use
    if request.case["kind"] != "read-too-early" or use is None or use.file is None or use.statement is None:
        return None
    if not isinstance(use.frame.f_globals.get("torch"), types.ModuleType) or not starts_line(use.file, use.statement):
        return None
    return use.file.insertion(use.statement.lineno - 1, f"{indent_of(use.file, use.statement)}torch.cuda.synchronize()")


# -- where the tensor was made


def factory_device(request: Request) -> Edit | None:
    """`torch.zeros(3)` -> `torch.zeros(3, device=device)`."""
    if isinstance(request.tensor, torch.Generator):
        return _draw_there(request)
    file, call = _creation(request)
    if call is not None:
        words = request.words(file, call)
        if words.startswith('"'):
            words = _given_there(request, file, call) or words
        if words.startswith('"') and _has_words_at_use(request, file, call):
            return None
        return device_argument(file, call, words, rewriting.is_drawn_on(call, request.device, request.users))
    return _move_where_made(request)


def _given_there(request: Request, file: source.Source, call: ast.Call) -> str:
    """`x.device`, of what a helper was given that made the tensor and has returned: `mask(x)` is called at the use."""
    _, node = _place(request)
    helper = device_text.function_of(file, call)
    if not isinstance(node, ast.Call) or histories.called_name(node) != getattr(helper, "name", None):
        return ""
    for name in bindings.parameters(helper):
        given = bindings.argument_of(node, file, helper, name)
        value = values.evaluate(given, request.use.frame) if given is not None else None
        if values.is_tensor(value) and str(value.device) == request.device and not file.find(helper, ("store", name)):
            return f"{name}.device"
    return ""


def _has_words_at_use(request: Request, file: source.Source, call: ast.Call) -> bool:
    """Whether a helper that knows of no device is called by a place that does: `mask(n)` -> `mask(n).to(x.device)`.
    A number in the helper would be right for one card only.
    """
    place, node = _place(request)
    helper = device_text.function_of(file, call)
    is_called_here = isinstance(node, ast.Call) and histories.called_name(node) == getattr(helper, "name", None)
    return is_called_here and not request.facts["written"] and not request.words(place, node).startswith('"')


def _draw_there(request: Request) -> Edit | None:
    """`torch.randperm(n, generator=g)` -> `torch.randperm(n, generator=g, device=g.device)`: drawn where g is."""
    use = request.use
    call = use.node if use is not None else None
    if not isinstance(call, ast.Call) or histories.called_name(call) not in makers.FACTORIES or use.file is None:
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
        if step.call is not None and histories.called_name(step.call) == "load":
            words = request.words(step.file, step.call)
            given = next((k for k in step.call.keywords if k.arg == "map_location"), None)
            if given is not None:
                return step.file.edit([Change.replace(given.value, words)])
            if len(step.call.args) > 1:
                return step.file.edit([Change.replace(step.call.args[1], words)])
            return add_argument(step.file, step.call, f"map_location={words}")
    return None


def assign_to(request: Request) -> Edit | None:
    """`x.to(device)` by itself -> `x = x.to(device)`."""
    wanted = {text for text in (request.facts["expression"], request.facts["name"]) if text}
    owner = request.facts["owner"]
    if owner is not None and request.facts["kind"] == "plain-attribute":
        wanted.add(f"self.{owner['attribute']}")
    for file, scope in scopes(request):
        for node in file.find(scope, *(("dropped move", text) for text in wanted)):
            moved = node.value.func.value
            plain = isinstance(moved, (ast.Name, ast.Attribute, ast.Subscript))
            if plain and not _is_of_another(file, scope, node, ast.unparse(moved)):
                return file.edit([Change.before(node, f"{file.segment(moved)} = ")])
    return None


def _is_of_another(file: source.Source, scope: ast.AST, node: ast.AST, text: str) -> bool:
    """Whether a function inside the scope has a variable of its own by the name that an expression begins with."""
    name = re.match(r"\w+", text)
    for around in file.ancestors(node):
        if around is scope:
            return False
        if isinstance(around, source.Function) and name is not None and name[0] != "self":
            given = {argument.arg for argument in ast.walk(around.args) if isinstance(argument, ast.arg)}
            if name[0] in given or file.find(around, ("store", name[0])):
                return True
    return False


# -- where a module holds it


def move_weight(request: Request) -> Edit | None:
    """`criterion = nn.CrossEntropyLoss(weight=w)` -> `… .to(device)`."""
    if request.facts["kind"] == "loss-weight":
        return move_root(request)
    return move_at_use(request) if request.facts["argument"] in ("weight", "pos_weight") else None


# -- where the batch is unpacked


def move_batch(request: Request) -> Edit | None:
    """A line `y = y.to(device)` after the one that moves the rest of the batch, or first in the loop."""
    match = request.match
    if match is None or match.kind != "batch":
        return None
    expression = ast.parse(match.name, mode="eval").body
    root = next(n for n in ast.walk(expression) if isinstance(n, ast.Name))
    binding = request.names.batches[match.frame].get(root.id)
    frame = request.frames[match.frame]
    if binding is None:
        return None
    target = match.name
    if target != root.id:
        whole = values.name_in(frame, root.id)
        if callable(getattr(type(whole), "to", None)):
            target = root.id
        elif not (isinstance(expression, ast.Subscript) and isinstance(getattr(expression.slice, "value", None), str)):
            return None
    return _insert_move(request, binding, target, frame)


def _insert_move(request: Request, binding: batches.Binding, target: str, frame: types.FrameType) -> Edit | None:
    file, statement = binding.file, binding.statement
    body = statement.body if isinstance(statement, (ast.For, ast.AsyncFor)) else statements_after(file, statement)
    model: ast.Assign | None = None
    for other in body:
        if (other.lineno or 0) >= (frame.f_lineno or 0):
            break
        if moves_itself(other) and starts_line(file, other) and ends_line(file, other):
            model = other
    if model is not None:
        start = file.segment(model.value.func)
        call = file.segment(model.value)[len(start) :]
        if "\n" not in call and histories.names_device(model.value):
            line = f"{indent_of(file, model)}{target} = {target}.{model.value.func.attr}{call}"
            return file.insertion(model.end_lineno, line)
    first = body[0] if body else None
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        if first is None or not starts_line(file, first):
            return None
        after, spot = first.lineno - 1, first
        if getattr(first, "decorator_list", None):
            return None
    else:
        if not ends_line(file, statement) or not starts_line(file, statement):
            return None
        after, spot = statement.end_lineno, statement
    words = device_text.write(file, spot, request.device, request.users)
    return file.insertion(after, f"{indent_of(file, spot)}{target} = {target}.to({words})")


def _place(request: Request) -> tuple[source.Source | None, ast.AST | None]:
    use = request.use
    if use is None or use.file is None:
        return None, None
    return use.file, request.node if request.node is not None else _gathered(use.node)


def _gathered(node: ast.AST | None) -> ast.AST | None:
    """`f(g)` in sum(f(g) for g in grads): no operand is written by itself, but all are made by one expression."""
    if not isinstance(node, ast.Call) or histories.called_name(node) not in rewriting.GATHERING or not node.args:
        return None
    inner = node.args[0]
    return inner.elt if isinstance(inner, (ast.GeneratorExp, ast.ListComp)) else None


def _creation(request: Request) -> tuple[source.Source | None, ast.Call | None]:
    """The call that made the tensor: from its history, else the expression itself, else the variable's assignment."""
    placed = next((step for step in reversed(request.steps) if step.facts["action"] != "computed"), None)
    if placed is not None and placed.facts["action"] == "moved" and placed.facts["explicit"]:
        return None, None  # where it was made says nothing: it was put where it is later
    for step in request.steps:
        made = step.call is not None and step.facts["action"] in ("created", "foreign")
        if made and makers.makes_tensor(step.call):
            return (None, None) if _serves_others(request, step) else (step.file, step.call)
    if request.steps and not isinstance(request.tensor, torch.Generator):
        return None, None
    file, node = _place(request)
    if isinstance(node, ast.Call) and makers.makes_tensor(node):
        return file, node
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
    scope, statement = device_text.function_of(made.file, made.call), made.file.statement(made.call)
    named = {name for target, _ in bindings.pairs(statement) for name in batches.targets(target)}
    return len(made.file.find(scope, *(("load", name) for name in named))) > 1


# Cases that are not about one tensor being elsewhere than the others.
_ONLY = {
    "host-access": ("cpu_numpy",),
    "read-too-early": ("synchronize",),
    "generator": ("generator_device", "factory_device"),
}

_WAYS: dict[str, Callable[[Request], Edit | None]] = {
    make.__name__: make
    for make in (
        register_buffer, module_list, factory_device, assign_to, move_at_use, move_batch, move_module, move_weight,
        map_location, handoff, move_index, cpu_lengths, generator_device, cpu_numpy, synchronize, optimizer_state,
        caches.move_cached,
    )
}  # fmt: skip
