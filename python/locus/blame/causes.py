"""The lines on the way of a value that is wrong, and what the program's text says about devices around each of them.

A tensor that was never moved has many lines behind it: where it was made, bound, passed on, returned. All of them are
candidates; the engine ranks them.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from locus.blame import nested, pointed, siblings, statements, uses
from locus.blame.candidates import Cause, location_of
from locus.fixing import caches, device_text, rewriting, said_devices
from locus.program import batches, bindings, histories, makers, places, source, trails, values
from locus.program.links import other_bindings
from locus.program.text_index import last_line
from locus.vocabulary import Fact

if TYPE_CHECKING:
    from locus.program import expressions
    from locus.program.links import Link
    from locus.program.shapes import Edit, Location


class Lines(NamedTuple):
    """What the way of a value has to offer."""

    causes: list[tuple[Cause, list[Fact], int]]
    """Where the value could have been moved, with what the text says of each and how far it is from the use."""
    of_makers: list[tuple[Location, list[Fact]]]
    """What the text says of the calls that made it."""
    at_use: list[Fact]


def on_the_way(
    steps: list[histories.Step],
    trail: trails.Trail,
    others: list[list[histories.Step]],
    device: str,
    users: list[types.FrameType],
    is_batch: bool,
    only_sure: bool,
    use: expressions.Use | None,
) -> Lines:
    """The lines on a value's way; `only_sure`: only what the text itself says there."""
    links = [link for link in _until_moved(trail.links) if not _is_owner(link.node)]
    told: list[list[Fact]] = [statements.said_at(link) for link in links]
    lines = Lines([], [], [])
    if not only_sure:
        used_in = use.statement if use is not None else None
        for number, fact in list(pointed.on_way(links, any(told), steps, trail, is_batch, used_in)):
            told[number].append(fact)
        elsewhere, at_use = uses.weigh(links, steps, use, trail.held[-1][2] if trail.held else 0)
        lines.at_use.extend(at_use)
        if links and links[0].how == "return" and caches.serves_anybody(links[0].context):
            lines.at_use.append("helper_knows_no_device")
        for number, facts in enumerate(elsewhere):
            told[number] += facts
        for cause, fact in pointed.off_way(steps, others, links, users):
            lines.causes.append((cause, [fact], len(links)))
    maker = _leave_to_maker(links, told, steps)
    if maker is not None:
        lines.of_makers.append((maker, ["device_argument_unused"]))
    mixed = use is not None and _takes_of_mixed(use)
    iterated = next((n for n, link in enumerate(links) if link.how == "loop"), len(links))
    for number, link in enumerate(links):
        if link.how == "made":
            lines.of_makers.append((place_of(link), told[number]))
        later = siblings.moved_later(link)
        if later is not None and device.startswith("cuda") and not any(map(siblings.is_rebound_beside, links[:number])):
            lines.causes.append((_after_fellow(link, later), ["fellow_is_moved"], number))
        if told[number] or (number < _PLAIN_LINKS and not statements.is_container(link)):
            if isinstance(link.node, ast.Constant) or (number > iterated and not _may_be_moved(link)):
                continue
            found = _cause(link, device, users, mixed)
            if link.how == "loop" and found.edit is None:
                found = _at_edit(found._replace(edit=_first_in_loop(link, device)))
            lines.causes.append((found, told[number], number))
    return lines


def _leave_to_maker(links: list[Link], told: list[list[Fact]], steps: list[histories.Step]) -> Location | None:
    """The call in a function that ignores its device which made the one tensor that all else there is computed of: that
    is the line, and none behind it."""
    made = next((step for step in steps if step.facts["action"] == "created"), None)
    ignoring = [number for number, facts in enumerate(told) if "device_argument_unused" in facts]
    scopes = {links[number].context.scope for number in ignoring}
    if made is None or made.call is None or len(scopes) != 1 or uses.makes_of(scopes.pop()) != [made.call]:
        return None
    for number in ignoring:
        told[number].remove("device_argument_unused")
    return made.facts["at"]


def _after_fellow(link: Link, move: bindings.OwnMove) -> Cause:
    """`test_y = test_y.cuda()` after `test_x = test_x.cuda()`, in the same block and under the same conditions."""
    file = link.context.file
    if not rewriting.has_lines(file, move):
        return Cause(location_of(file, move), None)
    suffix = rewriting.same_move(file, move.value)
    line = f"{rewriting.indent_of(file, move)}{link.name} = {link.name}{suffix}"
    return Cause(location_of(file, move), file.insertion(last_line(move), line))


def _may_be_moved(link: Link) -> bool:
    """Whether what a loop goes over is a tensor itself, or one of those that a generator gives: a loader, a list or the
    generator has no .to()."""
    if isinstance(link.statement, ast.Expr) and isinstance(link.statement.value, ast.Yield):
        return link.how == "return"
    if link.how == "made" or isinstance(link.node, (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
        return True
    frame = link.context.frame
    if isinstance(link.node, ast.Call):
        return makers.makes_tensor(link.node)
    if frame is not None and link.how == "assign" and link.name:
        return values.is_tensor(values.name_in(frame, link.name))
    return frame is not None and values.is_tensor(values.evaluate(link.node, frame))


_PLAIN_LINKS = 6
"""So many links of a way are candidates even where the text says nothing of them."""


def _at_edit(cause: Cause) -> Cause:
    """The cause where its edit is, which for an inserted line is the line before it."""
    edit = cause.edit
    if edit is None or edit["line"] == cause.place["line"]:
        return cause
    file = source.load(edit["file"])
    text = file.line(edit["line"]) if file is not None else ""
    return cause._replace(place=places.location(edit["file"], edit["line"], edit["line"], -1, -1, "", text))


def _first_in_loop(link: Link, device: str) -> Edit | None:
    """`y = y.to(device)` in `for x, y in pairs:`, like the x that the loop moves there."""
    file, loop = link.context.file, link.statement
    moves = [move for move in siblings.moved_in_loop(link) if siblings.goes_to(move, link.context.frame, device)]
    if not moves or not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    beside = file.statement(moves[0])
    own = beside if rewriting.moves_itself(beside) and rewriting.ends_line(file, beside) else None
    spot = own or loop.body[0]
    if not rewriting.starts_line(file, spot) or getattr(spot, "decorator_list", None):
        return None
    line = f"{rewriting.indent_of(file, spot)}{link.name} = {link.name}{rewriting.same_move(file, moves[0])}"
    return file.insertion(last_line(own) if own is not None else spot.lineno - 1, line)


def at_use(
    use: expressions.Use, node: ast.expr, trail: trails.Trail | None, device: str, users: list[types.FrameType]
) -> tuple[Cause, list[Fact]] | None:
    """The use itself, where the text says that the value is meant to come as it does and to be moved there."""
    file = use.file
    if file is None or use.statement is None:
        return None
    scope = next((a for a in file.ancestors(node) if isinstance(a, (*source.Function, ast.Module))), file.tree)
    host = [n for n in ast.walk(node) if isinstance(n, ast.Call) and histories.called_name(n) == "cpu"]
    sample = getattr(scope, "name", "") == "__getitem__" and any(isinstance(n, ast.Subscript) for n in ast.walk(node))
    came_in = trail is not None and bool(trail.links) and trail.links[0].how == "argument"
    name = statements.root_name(node)
    moved_too = came_in and any(
        bindings.is_move(n) and statements.root_name(n.func.value) == name and file.statement(n) is not use.statement
        for n in file.calls(scope, "to", "cuda")
    )
    layer = values.evaluate(node.func, use.frame) if isinstance(node, ast.Call) else None
    # A layer that is meant to be on the host: its result is handed over here.
    computed = values.is_module(layer) and any(not parameter.is_cuda for parameter in layer.parameters())
    said: list[Fact] = ["host_value_at_use"] if host or sample or moved_too or computed else []
    if _is_given_moved(file, scope, use.node, node):
        said.append("same_call_moved")
    if came_in and uses.moves_fellow_argument(use, name, device):
        said.append("fellow_argument_moved")
    if trail is not None and trail.links and siblings.is_moved_in(trail.links[0], use.statement):
        said.append("sibling_is_moved")
    if not said:
        return None
    words = device_text.write(file, node, device, users)
    return Cause(location_of(file, node), rewriting.append_call(file, node, f".to({words})")), said


def at_name(
    use: expressions.Use, node: ast.expr, trail: trails.Trail, device: str, users: list[types.FrameType]
) -> Cause | None:
    """`H = self.model.H`, where the function that uses a value got it from an object and reads it several times."""
    link = trail.links[0] if trail.links else None
    if link is None or link.how != "assign" or link.context.frame is not use.frame:
        return None
    name, file, scope = statements.root_name(node), link.context.file, link.context.scope
    if name != link.name or not isinstance(link.node, ast.Attribute):
        return None
    reads = file.find(scope, ("load", name))
    if len(reads) < 2 or len(bindings.binders(scope, name)) != 1 or any(_wants_it_there(file, each) for each in reads):
        return None
    words = device_text.write(file, link.node, device, users)
    return Cause(location_of(file, link.node), rewriting.append_call(file, link.node, f".to({words})"))


def _wants_it_there(file: source.Source, node: ast.AST) -> bool:
    """`h.to(device)`, `h.numpy()`, `h.add_(1)`: what reads a value says where, needs it on the host, or writes to what
    the object holds."""
    method = file.parent(node)
    name = method.attr if isinstance(method, ast.Attribute) else ""
    is_tied = name in ("cpu", "numpy", "tolist", "item") or (name.endswith("_") and not name.endswith("__"))
    return is_tied or uses.moved_around(file, node) is not None


def _is_given_moved(file: source.Source, scope: ast.AST, call: ast.AST | None, node: ast.expr) -> bool:
    """Whether the function makes the same call again, with what it passes first moved there, which is `node` here."""
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.func, ast.Attribute):
        return False
    if len(call.args) > 1 and any(node is other for other in call.args[1:]):
        return False
    if bindings.is_move(call.args[0]):
        return False
    named = file.calls(scope, histories.called_name(call))
    moved = [n for n in named if n is not call and n.args and bindings.is_move(n.args[0])]
    return any(ast.unparse(n.func) == ast.unparse(call.func) for n in moved)


def place_of(link: Link) -> Location:
    """The LOC of a link."""
    return location_of(link.context.file, link.node)


def is_lost_before(trail: trails.Trail, number: int) -> bool:
    """Whether the text says of one of the first links that the value should have been moved there."""
    nearest = [link for link in trail.links[:number] if not _is_owner(link.node)]
    return any(statements.said_at(link) or siblings.moved_nearby(link) for link in nearest)


def _is_owner(node: ast.expr) -> bool:
    """`return self`: the object that holds the tensor, which its own .to() can't move again."""
    return isinstance(node, ast.Name) and node.id == "self"


def _takes_of_mixed(use: expressions.Use) -> bool:
    """`batch["x"]`, of a dict that holds more than tensors: numbers and names have no .to()."""
    nodes = ast.walk(use.statement) if use.statement is not None else ()
    taken = [n.value for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)]
    held = [values.evaluate(node, use.frame) for node in taken]
    return any(isinstance(each, dict) and not all(map(values.is_tensor, each.values())) for each in held)


def _cause(link: Link, device: str, users: list[types.FrameType], mixed: bool = False) -> Cause:
    file = link.context.file
    node = _lost_part(link)
    is_value = link.how != "loop"
    unpacked = isinstance(link.target, (ast.Tuple, ast.List)) and node is link.node
    # `a, b = y.split(2)`: a tuple has no .to(), what is split has.
    method = node.func if isinstance(node, ast.Call) and batches.root(node) is not None else None
    split = method.value if isinstance(method, ast.Attribute) else None
    edit = None
    if is_value and not unpacked and device.startswith("cuda") and statements.is_list_of_tensors(link):
        words = device_text.write(file, node, device, users)
        elements = f"[t.to({words}) for t in {file.segment(node)}]"
        return Cause(location_of(file, node), file.edit([source.Change.replace(node, elements)]))
    inside = next((each for each in ast.walk(link.node) if nested.passed_by(each) is not None), None)
    if inside is not None:
        edit = nested.recursion(file, inside)
    elif link.how == "return" and nested.recursion_for_list(file, link.statement) is not None:
        edit = nested.recursion_for_list(file, link.statement)
    elif unpacked and device.startswith("cuda") and split is not None:
        words = device_text.write(file, node, device, users)
        edit = rewriting.append_call(file, split, f".to({words})")
    elif unpacked and device.startswith("cuda") and link.how == "assign" and link.name:
        edit = _below(link, device, users)
    elif siblings.elements_moved_beside(link):
        edit = file.edit([source.Change.replace(node, siblings.elements_moved_beside(link))])
    elif is_value and device.startswith("cuda") and not unpacked:
        words = device_text.write(file, node, device, users)
        if isinstance(node, ast.Call) and histories.called_name(node) in makers.FACTORIES:
            edit = rewriting.device_argument(file, node, words, rewriting.is_drawn_on(node, device, users))
        beside = siblings.move_in_statement(link, device) if node is link.node else None
        suffix = rewriting.same_move(file, beside) if beside is not None else f".to({words})"
        if mixed and node is not link.node and isinstance(node, ast.Name):  # the value of a dict's comprehension
            edit = file.edit([source.Change.after(node, f"{suffix} if torch.is_tensor({node.id}) else {node.id}")])
        edit = edit or rewriting.append_call(file, node, suffix)
    spot = node if is_value and node.lineno >= link.statement.lineno else link.statement
    return Cause(location_of(file, spot), edit)


def _below(link: Link, device: str, users: list[types.FrameType]) -> Edit | None:
    """`u = u.to(device)` below `(u,) = next(stream)`."""
    file, statement = link.context.file, link.statement
    if not rewriting.has_lines(file, statement):
        return None
    move, name = said_devices.move_to(file, device_text.write(file, statement, device, users)), link.name
    held = values.name_in(link.context.frame, name) if link.context.frame is not None else None
    moved = f"{name}{move}"
    if isinstance(held, (list, tuple)):
        moved = f"[t{move} for t in {name}]"
    elif isinstance(held, dict):
        moved = f"{{k: v{move} for k, v in {name}.items()}}"
    return file.insertion(last_line(statement), f"{rewriting.indent_of(file, statement)}{name} = {moved}")


def _lost_part(link: Link) -> ast.expr:
    """The expression that lacks a move: an element of a comprehension that hands on what it gets, or the value."""
    for node in ast.walk(link.node):
        if statements.hands_on(node):
            return node.value if isinstance(node, ast.DictComp) else node.elt
    return link.node


def _until_moved(links: list[Link]) -> Iterator[Link]:
    """Links up to one that moves the value itself: what lies behind it is another tensor."""
    for link in links:
        if link.moved:
            # In a loop the value may be that of the time before, which another statement bound.
            for statement, value in other_bindings(link):
                later = statement.lineno > link.statement.lineno and _is_in_loop(link.context.file, statement)
                if later and isinstance(statement, ast.Assign) and not bindings.is_move(value):
                    yield link._replace(statement=statement, node=value, moved=False)
            return
        yield link


def _is_in_loop(file: source.Source, statement: ast.stmt) -> bool:
    for around in file.ancestors(statement):
        if isinstance(around, source.Function):
            return False
        if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
            return True
    return False
