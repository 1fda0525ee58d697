"""Edits where a module, or what holds one, is made: a buffer registered, layers kept in a list that PyTorch knows, a
model moved, an optimizer's state taken along. Part of locus.fixing.edits.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from locus.fixing import device_text, name_scopes, rewriting
from locus.fixing.rewriting import append_call, ends_line, indent_of, nn_name
from locus.program import bindings, contexts, histories, moments, objects, places, source, values
from locus.program.shapes import Edit
from locus.program.source import Change
from locus.program.text_index import last_line, span

if TYPE_CHECKING:
    from locus.fixing.edits import Request


def register_buffer(request: Request) -> Edit | None:
    """`self.pe = torch.zeros(3)` -> `self.register_buffer("pe", torch.zeros(3), persistent=False)`."""
    if request.facts["kind"] != "plain-attribute" or isinstance(request.tensor, torch.nn.Parameter):
        return None
    if not _is_moved(request) and not places.in_replica(request.frames):
        return None  # nobody moves the module: a buffer would stay where it is
    stored = _stored(request)
    if stored is None or _is_put_later(request, stored):
        return None
    file, statement, target, value = stored
    if isinstance(value, ast.Constant) and not (value.value is None and _is_put_before_move(request, file, target)):
        return None  # `self.prior = None`: the tensor came later, and a buffer of nothing moves nothing
    if file.text_between(target, value).strip().endswith("("):
        return None  # a value in parentheses of its own: the brackets would not match
    words = f'{file.segment(target.value)}.register_buffer("{target.attr}", '
    head = Change(*span(statement)[:2], *span(value)[:2], words)
    note = "persistent=False leaves state_dict() as it was, so that saved models still load"
    return file.edit([head, Change.after(value, ", persistent=False)")], note)


def _is_put_later(request: Request, stored: _Stored) -> bool:
    """Whether a method that was called later has put the tensor there: a cache, which no move of the module reaches."""
    made = next((step.facts["at"]["function"] for step in request.steps if step.facts["action"] == "created"), "")
    if not made or made.endswith("__init__") or isinstance(stored.value, ast.Constant):
        return False
    around = stored.file.scope(name_scopes.function_of(stored.file, stored.target))
    others = stored.file.find(around, ("stored attribute", stored.target.attr)) if around is not None else []
    functions = [name_scopes.function_of(stored.file, each) for each in others]
    return any(getattr(each, "name", "") != "__init__" for each in functions)


def _is_put_before_move(request: Request, file: source.Source, target: ast.Attribute) -> bool:
    """Whether a method that puts a tensor into an attribute was called, where the text says, before the module was
    moved: a buffer of that name takes it in, and is moved."""
    holder = _holder(request)
    moved = moments.moves_of(holder.module)[0] if holder is not None else None
    around = file.scope(name_scopes.function_of(file, target))
    methods = {
        getattr(name_scopes.function_of(file, stored), "name", "")
        for stored in (file.find(around, ("stored attribute", target.attr)) if around is not None else ())
        if stored is not target
    } - {"", "__init__"}
    calls = [each for method in methods for each in contexts.calls_of(request.users, method)]
    return bool(calls) and moved is not None and all(
        at.file.file == moved["file"] and call.lineno < moved["line"]
        and getattr(at.scope, "name", "<module>") == moved["function"].rpartition(".")[2]
        for at, call in calls
    )  # fmt: skip


def _is_moved(request: Request) -> bool:
    """Whether somebody moves the module that has the attribute. Where moves are not noted (an error that a guard
    explains): whether what else it has is on a card, and it was not made there."""
    holder, owner = _holder(request), request.facts["owner"]
    if holder is None or owner is None:
        return False
    if moments.is_noting:
        return moments.moves_of(holder.module)[0] is not None
    taken = inspect.signature(type(holder.module)).parameters
    return owner["device"].startswith("cuda") and not any("device" in name for name in taken)


def module_list(request: Request) -> Edit | None:
    """`self.layers = [...]` -> `self.layers = nn.ModuleList([...])`."""
    owner, holder = request.facts["owner"], _holder(request)
    if owner is None or holder is None or owner["container"] not in ("list", "tuple", "dict"):
        return None
    stored = _stored(request)
    value = values.get_attribute(holder.module, owner["attribute"])
    wrapper = rewriting.container_class(value)
    if stored is None or not wrapper:
        return None
    file = stored.file
    changes = rewriting.wrap(file, stored.value, f"{nn_name(file)}.{wrapper}")
    inner = {rewriting.container_class(item) for item in rewriting.items_of(value)} - {""}
    if changes is None or len(inner) > 1:
        return None
    for name in inner:  # a dict of lists: what is put into it needs a container of its own
        for part in _put_into(stored):
            wrapped = rewriting.wrap(file, part, f"{nn_name(file)}.{name}")
            if wrapped is None:
                return None
            changes += wrapped
    return file.edit(changes)


def _put_into(stored: _Stored) -> list[ast.expr]:
    """The containers that are put into a container: the elements of its display, and what is assigned to its items."""
    file, statement, target, value = stored
    if isinstance(value, (ast.DictComp, ast.ListComp, ast.GeneratorExp)):
        return [value.value if isinstance(value, ast.DictComp) else value.elt]
    found: list[ast.expr] = list(value.values if isinstance(value, ast.Dict) else getattr(value, "elts", []))
    around = next((a for a in file.ancestors(statement) if isinstance(a, ast.ClassDef)), file.tree)
    text = ast.unparse(target)
    for node in file.find(around, ("assign to item of", text), ("call", "append")):
        if isinstance(node, ast.Assign):
            if len(node.targets) == 1:
                found.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            found += node.args if ast.unparse(node.func.value) == text else []
    return found


def move_module(request: Request) -> Edit | None:
    """`model = Net()` -> `model = Net().to(device)`."""
    is_left = request.facts["kind"] in ("parameter", "buffer") and request.facts["device"] == "cpu"
    return move_root(request) if is_left else None


def optimizer_state(request: Request) -> Edit | None:
    """`optimizer.load_state_dict(optimizer.state_dict())` after the line that moved the model: it moves the state."""
    holder = _holder(request)
    if request.facts["kind"] != "optimizer-state" or holder is None:
        return None
    moved, _ = moments.last_move_of_parameters(holder.root)
    file = source.load(moved["file"]) if moved else None
    if moved is None or file is None:
        return None
    around = file.statements_at(moved["line"])
    statement = around[-1] if around else None
    if statement is None or not ends_line(file, statement) or hasattr(statement, "body"):
        return None
    name = _optimizer_at(file, statement, holder.root_name)
    name = name or _variable_at(file, statement, holder.root, request.users)
    if not name:
        return None
    line = f"{indent_of(file, statement)}{name}.load_state_dict({name}.state_dict())"
    return file.insertion(last_line(statement), line, "loading its own state moves it to where the parameters are")


def _optimizer_at(file: source.Source, statement: ast.stmt, name: str) -> str:
    """What an optimizer is called at a statement: its variable, or `self.optimizer` in a method of its holder."""
    scope = next((a for a in file.ancestors(statement) if isinstance(a, source.Function)), file.tree)
    if name.isidentifier():
        return name if name_scopes.bound_before(file, scope, name, statement) else ""
    attribute = name.rpartition(".")[2]
    holder = file.scope(scope) if scope is not file.tree else None
    arguments = getattr(getattr(scope, "args", None), "args", [])
    if not isinstance(holder, ast.ClassDef) or not arguments or not attribute.isidentifier():
        return ""
    mine = f"{arguments[0].arg}.{attribute}"
    stored = file.find(holder, ("stored attribute", attribute))
    return mine if any(ast.unparse(node) == mine for node in stored) else ""


def _variable_at(file: source.Source, statement: ast.stmt, value: object, users: list[types.FrameType]) -> str:
    """The variable by which the running function of a statement has an object."""
    scope = name_scopes.function_of(file, statement)
    frame = name_scopes.frame_of(file, scope, users)
    here = values.at_rest(frame.f_locals) if frame is not None else {}
    names = [name for name, held in here.items() if held is value]
    return next((name for name in names if name_scopes.bound_before(file, scope, name, statement)), "")


def scopes(request: Request) -> Iterator[tuple[source.Source, ast.AST]]:
    """The functions that are running, innermost first, and the owner's class."""
    for frame in request.users:
        file = source.load(frame.f_code.co_filename)
        scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name) if file else None
        if file is not None and scope is not None:
            yield file, scope
    holder = _holder(request)
    if holder is not None:
        yield from bindings.class_trees(holder.module)


def _holder(request: Request) -> objects.Holder | None:
    return request.match.way.holder if request.match is not None else None


class _Stored(NamedTuple):
    """`self.<attribute> = …`."""

    file: source.Source
    statement: ast.Assign | ast.AnnAssign
    target: ast.Attribute
    value: ast.expr


def _stored(request: Request) -> _Stored | None:
    """The first `self.<attribute> = …` of the owner's __init__."""
    match, holder = request.match, _holder(request)
    if match is None or holder is None:
        return None
    for file, tree in bindings.class_trees(holder.module):
        for method in tree.body:
            if not isinstance(method, ast.FunctionDef) or method.name != "__init__" or not method.args.args:
                continue
            me = method.args.args[0].arg
            bound = [n for n in ast.walk(method) if isinstance(n, (ast.Assign, ast.AnnAssign))]
            for node in sorted(bound, key=lambda n: n.lineno):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                target = targets[0]
                if len(targets) != 1 or node.value is None or not isinstance(target, ast.Attribute):
                    continue
                if target.attr == match.way.attribute and isinstance(target.value, ast.Name) and target.value.id == me:
                    return _Stored(file, node, target, node.value)
    return None


def move_root(request: Request) -> Edit | None:
    """Adds .to(device) where the module was made: the part that the name goes through, or else the whole."""
    match = request.match
    if match is None or match.way.holder is None or match.frame >= len(request.frames):
        return None
    holder = match.way.holder
    parts = [part for part in holder.path.split(".") if part]
    # A whole that has been moved before is not what is missing; the part was added later.
    # Nor is a whole whose parts have been put on devices one by one.
    moved = moments.moves_of(holder.root)[0] is not None or _has_parts_on_cuda(holder.root)
    names_ = [".".join([holder.root_name, *parts[:count]]) for count in range(len(parts), -1, -1)]
    for name in names_[:-1] if moved else [holder.root_name]:
        edit = _move_made(request, name, request.frames[match.frame])
        if edit is not None:
            return edit
    return None


def _has_parts_on_cuda(module: torch.nn.Module) -> bool:
    return any(parameter.is_cuda for parameter in itertools.islice(module.parameters(), 1000))


def _move_made(request: Request, name: str, frame: types.FrameType) -> Edit | None:
    """Adds .to(device) to what is assigned to `name`, where that happens once."""
    file = source.load(frame.f_code.co_filename)
    trees = [(f, scope, name) for f, scope in scopes(request)] + ([(file, file.tree, name)] if file else [])
    before, _, attribute = name.rpartition(".")
    if before:
        owner = values.evaluate(ast.parse(before, mode="eval").body, frame)
        if owner is not values.MISSING:
            trees += [(f, tree, f"self.{attribute}") for f, tree in bindings.class_trees(owner)]
    for file, scope, target in trees:
        made = rewriting.values_of(file, scope, target)
        if len(made) > 1 and file.file == frame.f_code.co_filename:
            # Made several times: the last one before the line that runs, in its own function.
            here = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name)
            done = [v for v in made if name_scopes.function_of(file, v) is here and v.lineno <= (frame.f_lineno or 0)]
            made = sorted(done, key=lambda v: v.lineno)[-1:]
        if len(made) != 1 or isinstance(made[0], (ast.Constant, ast.List, ast.Dict, ast.Tuple)):
            continue
        value = made[0]
        if isinstance(value, ast.Call) and histories.called_name(value) in ("to", "cuda", "cpu"):
            continue
        return append_call(file, value, f".to({device_text.write(file, value, request.device, request.users)})")
    return None
