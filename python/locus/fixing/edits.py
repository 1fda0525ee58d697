"""Edits that could fix a placement: each a line of the program, rewritten in its own style. The engine chooses.

Changes the exact piece of source that needs it and leaves everything else as it is; where that can't be done, there
is no edit. Nothing is written to disk here.
"""

from __future__ import annotations

import ast
import contextlib
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from locus.fixing import caches, device_text, rewriting
from locus.fixing.maker_edits import factory_device, generator_device, map_location
from locus.fixing.module_edits import module_list, move_module, move_root, optimizer_state, register_buffer, scopes
from locus.fixing.rewriting import (
    append_call,
    ends_line,
    indent_of,
    moves_itself,
    starts_line,
    statements_after,
)
from locus.fixing.said_devices import move_to
from locus.program import batches, bindings, expressions, histories, names, places, source, values
from locus.program.shapes import Edit
from locus.program.source import Change
from locus.program.text_index import last_line
from locus.vocabulary import EditKind

if TYPE_CHECKING:
    from locus.program.bindings import OwnMove
    from locus.program.raw_shapes import OnDevice
    from locus.program.shapes import Case, Operand
    from locus.vocabulary import CaseKind


@dataclass
class Request:
    """What is known of the operand that an edit is wanted for."""

    case: Case
    facts: Operand
    tensor: OnDevice | None
    rule: str
    device: str
    """Where the operand should be."""
    use: expressions.Use | None
    node: ast.expr | None
    nodes: list[ast.expr | None]
    others: list[int]
    """The operands on the other side."""
    frames: list[types.FrameType]
    users: list[types.FrameType]
    match: names.Match | None
    names: names.Names
    steps: list[histories.Step]
    current: int = -1
    """The number of the current device, where the bridge has told it."""

    def place(self) -> tuple[source.Source, ast.expr] | None:
        """The operand's expression where it is used, and its file."""
        if self.use is None or self.use.file is None:
            return None
        node = self.node if self.node is not None else _gathered(self.use.node)
        return (self.use.file, node) if node is not None else None

    def words(self, file: source.Source, node: ast.AST) -> str:
        """The device where the operand should be, as it would be written at `node`."""
        used_in = self.use.file if self.use is not None else None
        placed = [self.nodes[n] for n in self.others if self.case["operands"][n]["device"] == self.device]
        others = [(each, used_in) for each in placed if each is not None and used_in is not None]
        return device_text.write(file, node, self.device, self.users, others)


Way = Callable[[Request], Edit | None]


def _gathered(node: ast.AST | None) -> ast.expr | None:
    """`f(g)` in sum(f(g) for g in grads): no operand is written by itself, but all are made by one expression."""
    if not isinstance(node, ast.Call) or histories.called_name(node) not in rewriting.GATHERING or not node.args:
        return None
    inner = node.args[0]
    return inner.elt if isinstance(inner, (ast.GeneratorExp, ast.ListComp)) else None


def operand_edits(request: Request) -> dict[EditKind, Edit]:
    """Every edit kind that applies to the operand, with its EDIT."""
    found: dict[EditKind, Edit] = {}
    for kind, make in _ways(request).items():
        edit = None
        with contextlib.suppress(BaseException):  # an odd tree, or object, must not cost the other edits
            edit = make(request)
        if edit is not None and places.is_user_file(edit["file"]):
            found[kind] = edit
    return found


def _ways(request: Request) -> Mapping[EditKind, Way]:
    only = _ONLY.get(request.case["kind"])
    if only is not None:
        return {kind: _WAYS[kind] for kind in only}
    if request.device != "cpu":
        return _WAYS
    if request.rule in ("cpu", "index"):
        return {kind: _WAYS[kind] for kind in _TO_HOST}
    if request.case.get("home") == "host":
        return {"move_at_use": move_at_use, "move_on_the_way": bring_to_host}
    # The operator does not ask for the CPU: moving things there fixes nothing. Results are compared there.
    return {"move_at_use": compare_on_host} if request.case["op"] == "equal" else {}


# -- at the use


def move_at_use(request: Request) -> Edit | None:
    """`self.cache` -> `self.cache.to(x.device)`, where it is used."""
    place = request.place()
    if place is None or request.facts["written"] or not values.is_tensor(request.tensor):
        return None
    file, node = place
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
    place = request.place()
    return append_call(*place, ".cpu()") if place is not None and values.is_tensor(request.tensor) else None


def bring_to_host(request: Request) -> Edit | None:
    """`meter.add(y, pred)` -> `meter.add(y.cpu(), pred.cpu())`, for an object that gathers on the host, where nothing
    can be moved at the use."""
    if request.node is not None or len(request.users) < 2:
        return None
    inside, use = request.users[0], expressions.Use(request.users[1], request.users[0])
    code = inside.f_code
    file = source.load(code.co_filename)
    scope = file.function_at(code.co_firstlineno, code.co_name) if file is not None else None
    if use.file is None or file is None or scope is None or not isinstance(use.node, ast.Call):
        return None
    changes: list[Change] = []
    for name in bindings.parameters(scope):
        value, given = inside.f_locals.get(name), bindings.argument_of(use.node, file, scope, name)
        if values.is_tensor(value) and value.is_cuda:
            if not isinstance(given, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
                return None
            changes.append(Change.after(given, ".cpu()"))
    return use.file.edit(changes) if changes else None


def move_index(request: Request) -> Edit | None:
    is_index = request.rule == "index" or request.facts["argument"] in ("index", "indices")
    return move_at_use(request) if is_index else None


def cpu_lengths(request: Request) -> Edit | None:
    """`lengths` -> `lengths.cpu()`, for arguments that must be on the CPU."""
    place = request.place()
    return append_call(*place, ".cpu()") if place is not None and request.rule == "cpu" else None


def handoff(request: Request) -> Edit | None:
    """`h` -> `h.to("cuda:1")`, where a tensor is handed to a stage that lives on another GPU."""
    if not (request.facts["device"].startswith("cuda") and request.device.startswith("cuda")):
        return None
    place: tuple[source.Source, ast.expr] | None = None
    for frame in request.users:
        # The outermost call that still passes this very tensor on.
        inner = next((f for f in request.frames if f.f_back is frame), None)
        use = expressions.Use(frame, inner)
        node = expressions.argument_node(use, request.tensor)
        if use.file is None or node is None:
            # In an expression of the function itself: its caller may have passed it in.
            code = frame.f_code
            given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
            if place is None and any(value is request.tensor for value in given):
                continue
            break
        place = (use.file, node)
    place = place or request.place()
    if place is None or request.facts["written"]:
        return None
    file, node = place
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
        return _kept_on_host(request)
    detach = request.facts["requires_grad"] and "detach" not in ast.dump(node)
    return append_call(use.file, node, ".detach().cpu()" if detach else ".cpu()")


def _kept_on_host(request: Request) -> Edit | None:
    """`losses.append(loss.detach())` -> `… .item())`, for a list that NumPy is given: its elements have no names."""
    held = re.fullmatch(r"([\w.]+)\[\d+\]", request.facts["name"])
    for file, scope in scopes(request) if held is not None else ():
        put = bindings.puts(scope, held[1]) if held is not None else []
        if len(put) == 1:
            return append_call(file, put[0][2], ".item()" if request.facts["zero_dim"] else ".cpu()")
    return None


def synchronize(request: Request) -> Edit | None:
    """torch.cuda.synchronize() before a line that reads too early."""
    use = request.use
    if request.case["kind"] != "read-too-early" or use is None or use.file is None or use.statement is None:
        return None
    if not isinstance(use.frame.f_globals.get("torch"), types.ModuleType) or not starts_line(use.file, use.statement):
        return None
    device, words = request.case["device"], ""
    if request.current >= 0 and device != f"cuda:{request.current}":
        words = device_text.numbered(use.file, use.statement, device, request.users)
    indent = indent_of(use.file, use.statement)
    return use.file.insertion(use.statement.lineno - 1, f"{indent}torch.cuda.synchronize({words})")


def assign_to(request: Request) -> Edit | None:
    """`x.to(device)` by itself -> `x = x.to(device)`."""
    wanted = {text for text in (request.facts["expression"], request.facts["name"]) if text}
    owner = request.facts["owner"]
    if owner is not None and request.facts["kind"] == "plain-attribute":
        wanted.add(f"self.{owner['attribute']}")
    for file, scope in scopes(request):
        for node in file.find(scope, *(("dropped move", text) for text in wanted)):
            call = node.value if isinstance(node, ast.Expr) else None
            moved = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
            if not isinstance(moved, (ast.Name, ast.Attribute, ast.Subscript)):
                continue
            if not _is_of_another(file, scope, node, ast.unparse(moved)):
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
    model: OwnMove | None = None
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
            return file.insertion(last_line(model), line)
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
        after, spot = last_line(statement), statement
    words = device_text.write(file, spot, request.device, request.users)
    return file.insertion(after, f"{indent_of(file, spot)}{target} = {target}{move_to(file, words)}")


# Cases that are not about one tensor being elsewhere than the others.
_ONLY: dict[CaseKind, tuple[EditKind, ...]] = {
    "host-access": ("cpu_numpy",),
    "read-too-early": ("synchronize",),
    "generator": ("generator_device", "factory_device"),
}

_TO_HOST: tuple[EditKind, ...] = ("move_index", "move_at_use", "cpu_lengths", "generator_device")

_WAYS: dict[EditKind, Way] = {
    "register_buffer": register_buffer, "module_list": module_list, "factory_device": factory_device,
    "assign_to": assign_to, "move_at_use": move_at_use, "move_batch": move_batch, "move_module": move_module,
    "move_weight": move_weight, "map_location": map_location, "handoff": handoff, "move_index": move_index,
    "cpu_lengths": cpu_lengths, "generator_device": generator_device, "cpu_numpy": cpu_numpy,
    "synchronize": synchronize, "optimizer_state": optimizer_state, "move_cached": caches.move_cached,
}  # fmt: skip
