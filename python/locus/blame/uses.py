"""What a program does with a value elsewhere: moves it at its other uses, computes it with others on the host, makes
the like of it on a device in the next line. That says which of the lines on its way is the one to edit.

Reads trees, and values only where a frame runs them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from locus.blame import siblings
from locus.fixing import device_text, name_scopes
from locus.program import bindings, histories, makers, source, values
from locus.program.links import Link, flow_of, sources
from locus.vocabulary import Fact

if TYPE_CHECKING:
    from locus.program import expressions


def weigh(
    links: list[Link], steps: list[histories.Step], use: expressions.Use | None, held: int
) -> tuple[list[list[Fact]], list[Fact]]:
    """What other uses say of each link of a way, and of the use itself. `held`: how many links lie before what an
    object holds and the value was computed of; 0 where there is no such thing."""
    said: list[list[Fact]] = [[] for _ in links]
    at_use: list[Fact] = []
    statements = [link.statement for link in links]
    used_in = use.statement if use is not None else None
    served = next((n for n, link in enumerate(links) if _is_moved_at_others(link, [used_in, *statements[:n]])), None)
    if served is not None:
        for number in range(served, len(links)):
            if not any(links[number].statement is each for each in statements[:served]):
                said[number].append("serves_others")
        nearer = next((n for n in range(served - 1, -1, -1) if _can_be_moved(links[n])), None)
        (at_use if nearer is None else said[nearer]).append("left_at_this_use")
    read = next((n for n, link in enumerate(links) if _is_read_by_python(link)), None)
    if read is not None:
        for number in range(read, len(links)):
            said[number].append("meets_host_values")
        return said, at_use
    if steps and steps[-1].facts["action"] != "computed":
        return said, at_use  # it is as it was made
    if held and links and links[0].how == "assign" and isinstance(links[0].node, (ast.Call, ast.BinOp)):
        said[0].append("done_on_host")  # computed of what an object keeps there
    made = {(step.facts["at"]["file"], step.facts["at"]["line"]) for step in steps}
    met = next((n for n, link in enumerate(links) if _meets_host_values(link, links[n + 1 :], made)), None)
    if met is not None:
        said[met].append("done_on_host")
        for number in range(met + 1, len(links)):
            if not any(links[number].statement is each for each in statements[: met + 1]):
                said[number].append("meets_host_values")
    return said, at_use


def _can_be_moved(link: Link) -> bool:
    return link.how in ("assign", "argument", "return", "attribute", "put")


def _is_read_by_python(link: Link) -> bool:
    """`for rate in rates.tolist()`: Python goes on with the numbers of what a statement binds."""
    name = link.name or (link.target.id if isinstance(link.target, ast.Name) else "")
    file, scope = link.context.file, link.context.scope
    for node in file.find(scope, ("load", name)) if link.how == "assign" and name else ():
        method = file.parent(node)
        call = file.parent(method) if isinstance(method, ast.Attribute) and method.attr in ("tolist", "numpy") else None
        around = [*file.ancestors(call)] if isinstance(call, ast.Call) and call.func is method else []
        if any(isinstance(each, (ast.For, ast.comprehension)) for each in around):
            flow = flow_of(file, scope)
            reaching = flow.reaching(node) if flow is not None and name_scopes.function_of(file, node) is scope else ()
            if any(file.statement(each.node) is link.statement for each in reaching):
                return True
    return False


def _is_moved_at_others(link: Link, on_way: list[ast.stmt | None]) -> bool:
    """Whether what a statement binds is moved at another of its uses, and not on the way that is looked at."""
    name = link.name or (link.target.id if isinstance(link.target, ast.Name) else "")
    if link.how not in ("assign", "loop") or not name:
        return False
    file, scope = link.context.file, link.context.scope
    flow = flow_of(file, scope)
    if flow is None:
        return False
    for node in file.find(scope, ("load", name)):
        statement = file.statement(node)
        if any(statement is each for each in on_way) or name_scopes.function_of(file, node) is not scope:
            continue
        if moved_around(file, node) is None and not _is_given_to_loader(file, node):
            continue
        reaching = flow.reaching(node)
        if any(each.node is link.statement or file.statement(each.node) is link.statement for each in reaching):
            return True
    return False


def _is_given_to_loader(file: source.Source, node: ast.AST) -> bool:
    """`DataLoader(data)`, `TensorDataset(x, y)`: samples are gathered on the host."""
    call = file.parent(node)
    return isinstance(call, ast.Call) and node in call.args and histories.called_name(call).endswith(_LOADERS)


_LOADERS = ("DataLoader", "TensorDataset", "Subset", "random_split")


def moved_around(file: source.Source, node: ast.AST) -> ast.Call | None:
    """The move to a device that a value is part of: `(x + y).to(device)` for x. Not one to the host."""
    inside = node
    for around in file.ancestors(node):
        if isinstance(around, (ast.stmt, ast.Lambda)):
            return None
        if isinstance(around, ast.Attribute) and around.attr in _NO_VALUE:
            return None
        if isinstance(around, ast.Call) and inside is not around.func and _takes_no_value(around):
            return None
        if bindings.is_move(around) and inside is around.func and "cpu" not in ast.unparse(around):
            return around
        inside = around
    return None


_NO_VALUE = {"shape", "size", "dtype", "ndim", "dim", "numel", "device", "tolist", "item"}
"""What of a tensor is not its values."""


def _takes_no_value(call: ast.Call) -> bool:
    """`len(x)`, `Net(len(x))`: what comes out is no tensor made of what goes in."""
    name = histories.called_name(call)
    return name in ("len", "range", "int", "float", "bool", "str") or name[:1].isupper()


def _meets_host_values(link: Link, behind: list[Link], made: set[tuple[str, int]]) -> bool:
    """Whether a statement computes with another tensor of the host, which was not made of the same."""
    if not _can_be_moved(link) or not isinstance(link.node, (ast.BinOp, ast.Call, ast.Compare)):
        return False
    if isinstance(link.node, ast.Call) and makers.makes_tensor(link.node):
        return False
    first = next((each for each in behind if each.how == "made"), None)
    if first is None or first.context.scope is not link.context.scope:
        return False  # it came from elsewhere: what the function makes of its own has to follow it
    if len(makes_of(link.node)) > 1:
        return True  # several are made in the same expression
    return any(_host_values(link, made, [each.node for each in behind if each.how == "made"]))


def _host_values(link: Link, made: set[tuple[str, int]], followed: list[ast.AST]) -> Iterator[bool]:
    file, frame = link.context.file, link.context.frame
    for node in ast.walk(link.node):
        if not isinstance(node, ast.Name) or moved_around(file, node) is not None:
            continue
        if frame is not None:
            value = values.evaluate(node, frame)
            if values.is_tensor(value) and value.dim() > 0 and str(value.device) == "cpu":
                lines = histories.lines(value)
                yield bool(lines) and not lines & made
        elif node.id not in bindings.parameters(link.context.scope):
            for bound in sources(link.context, node).bound:
                calls = [n for n in ast.walk(bound.value) if isinstance(n, ast.Call) and makers.makes_tensor(n)]
                yield any(not siblings.places_tensor(call) and not _is_scalar(call) for call in calls) and not any(
                    call is each for call in calls for each in followed[:1]
                )


def _is_scalar(call: ast.Call) -> bool:
    """`torch.tensor(0.5)`: a number, which goes with tensors of any device."""
    return histories.called_name(call) == "tensor" and bool(call.args) and isinstance(call.args[0], ast.Constant)


def makes_of(scope: ast.AST) -> list[ast.Call]:
    """The calls of a function that make tensors and say no device."""
    calls = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and makers.makes_tensor(n)]
    return [call for call in calls if not siblings.places_tensor(call) and not _is_scalar(call)]


def has_placed_neighbor(file: source.Source, call: ast.Call) -> bool:
    """`std = torch.tensor([…]).to(device)` beside `mean = torch.tensor([…])`: the like is made and placed there."""
    statement = file.statement(call)
    if not isinstance(statement, ast.Assign) or any(map(siblings.places_tensor, ast.walk(statement))):
        return False
    name = histories.called_name(call)
    return any(
        isinstance(n, ast.Call)
        and histories.called_name(n) == name
        and (siblings.places_tensor(n) or moved_around(file, n))
        for beside in _neighbors(file, statement)
        for n in ast.walk(beside)
    )


def _neighbors(file: source.Source, statement: ast.stmt) -> list[ast.stmt]:
    """The assignments directly before and after a statement."""
    block = file.block(statement)
    place = block.index(statement) if block else 0
    beside = [*block[max(0, place - 1) : place], *block[place + 1 : place + 2]]
    return [each for each in beside if isinstance(each, ast.Assign)]


def moves_fellow_argument(use: expressions.Use, name: str, device: str) -> bool:
    """Whether the function that uses one of its arguments moves another one to the device."""
    file, frame = use.file, use.frame
    if file is None or frame is None:
        return False
    scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name)
    given = bindings.parameters(scope) if scope is not None else []
    if scope is None or name not in given:
        return False
    for move in file.calls(scope, "to", "cuda"):
        if not bindings.is_move(move) or name_scopes.function_of(file, move) is not scope:
            continue
        moved = move.func.value
        if isinstance(moved, ast.Name) and moved.id in given and moved.id != name:
            words = move.args[0] if move.args else None
            value = values.evaluate(words, frame) if words is not None else device
            if value is values.MISSING or device_text.same_device(value, device):
                return True
    return False
