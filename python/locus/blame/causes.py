"""The lines on the way of a value that is wrong, and what the program's text says about devices around each of them.

A tensor that was never moved has many lines behind it: where it was made, bound, passed on, returned. All of them are
candidates; the engine ranks them.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from locus.blame import nested, siblings, statements, uses
from locus.blame.candidates import Cause
from locus.fixing import caches, device_text, rewriting
from locus.program import batches, bindings, histories, makers, places, source, trails, values
from locus.program.links import other_bindings
from locus.vocabulary import Fact

if TYPE_CHECKING:
    from locus.program import expressions
    from locus.program.links import Link
    from locus.program.shapes import Edit, Location


_BINDING = ("assign", "argument", "attribute")
_GATHERING = {"stack", "cat", "concat", "pad_sequence", "vstack", "hstack", "default_collate", "collate"}


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
        for number, fact in list(_pointed_at(links, any(told), steps, trail, is_batch)):
            told[number].append(fact)
        elsewhere, at_use = uses.weigh(links, steps, use, trail.held[-1][2] if trail.held else 0)
        lines.at_use.extend(at_use)
        if links and links[0].how == "return" and caches.remembers(links[0].context.scope):
            if not device_text.is_mentioned_in(links[0].context.scope):
                lines.at_use.append("helper_knows_no_device")
        for number, facts in enumerate(elsewhere):
            told[number] += facts
        for cause, fact in _off_the_way(steps, others, links, users):
            lines.causes.append((cause, [fact], len(links)))
    for number, link in enumerate(links):
        if link.how == "made":
            lines.of_makers.append((place_of(link), told[number]))
        later = siblings.moved_later(link)
        if later is not None and device.startswith("cuda"):
            lines.causes.append((_after_fellow(link, later), ["fellow_is_moved"], number))
        if told[number] or (number < _PLAIN_LINKS and not statements.is_container(link)):
            found = _cause(link, device, users)
            if link.how == "loop" and not is_batch and found.edit is None:
                found = _at_edit(found._replace(edit=_first_in_loop(link)))
            lines.causes.append((found, told[number], number))
    return lines


def _after_fellow(link: Link, move: ast.Assign) -> Cause:
    """`test_y = test_y.cuda()` after `test_x = test_x.cuda()`, in the same block and under the same conditions."""
    file = link.context.file
    if not rewriting.starts_line(file, move) or not rewriting.ends_line(file, move):
        return Cause(location_of(file, move), None)
    suffix = rewriting.same_move(file, move.value)
    line = f"{rewriting.indent_of(file, move)}{link.name} = {link.name}{suffix}"
    return Cause(location_of(file, move), file.insertion(move.end_lineno, line))


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


def _pointed_at(
    links: list[Link], is_said: bool, steps: list[histories.Step], trail: trails.Trail, is_batch: bool
) -> Iterator[tuple[int, Fact]]:
    """What the links together with the value's history say of one of them; `is_said`: a statement says it by itself."""
    for number, link in enumerate(links):
        if siblings.moved_nearby(link) and not _is_made_there(link, links):
            yield number, "rest_is_moved"
    pointed: list[tuple[Link | None, Fact]] = []
    if is_batch:
        pointed.append((_unpacking(links), "unpacked_here"))
    if trail.held and not is_said and any(step.facts["action"] == "received" for step in steps):
        # Computed on the host with what is kept there: it goes over when that is done.
        before = trail.links[: trail.held[0][2]]
        link = next((each for each in before if each.how == "assign" and each.context.frame is not None), None)
        pointed.append((link, "computed_with_held"))
    pointed.append((_before_helper(links, steps), "helper_knows_no_device"))
    pointed.append((_own_statement(links, steps), "bound_here"))
    for link, fact in pointed:
        number = next((n for n, each in enumerate(links) if each is link), None)
        if number is not None:
            yield number, fact


def _off_the_way(
    steps: list[histories.Step],
    others: list[list[histories.Step]],
    links: list[Link],
    users: list[types.FrameType],
) -> Iterator[tuple[Cause, Fact]]:
    gathered = _where_gathered(steps)
    if gathered is not None:
        yield gathered, "gathered_here"
    parted = _after_shared_root(steps, others, links, users)
    if parted is not None:
        yield parted, "parted_here"


def _first_in_loop(link: Link) -> Edit | None:
    """`y = y.to(device)` in `for x, y in pairs:`, like the x that the loop moves."""
    file, moves = link.context.file, siblings.moved_in_loop(link)
    if not moves:
        return None
    beside = file.statement(moves[0])
    own = rewriting.moves_itself(beside) and rewriting.ends_line(file, beside)
    spot = beside if own else link.statement.body[0]
    if not rewriting.starts_line(file, spot) or getattr(spot, "decorator_list", None):
        return None
    line = f"{rewriting.indent_of(file, spot)}{link.name} = {link.name}{rewriting.same_move(file, moves[0])}"
    return file.insertion(spot.end_lineno if own else spot.lineno - 1, line)


def at_use(
    use: expressions.Use | None, node: ast.AST, trail: trails.Trail | None, device: str, users: list[types.FrameType]
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
        for n in file.find(scope, ("call", "to"), ("call", "cuda"))
    )
    layer = values.evaluate(node.func, use.frame) if isinstance(node, ast.Call) else None
    # A layer that is meant to be on the host: its result is handed over here.
    computed = values.is_module(layer) and any(not parameter.is_cuda for parameter in layer.parameters())
    said: list[Fact] = ["host_value_at_use"] if host or sample or moved_too or computed else []
    if _is_given_moved(file, scope, use.node):
        said.append("same_call_moved")
    if came_in and uses.moves_fellow_argument(use, name, device):
        said.append("fellow_argument_moved")
    if not said:
        return None
    words = device_text.write(file, node, device, users)
    return Cause(location_of(file, node), rewriting.append_call(file, node, f".to({words})")), said


def _is_given_moved(file: source.Source, scope: ast.AST, call: ast.AST | None) -> bool:
    """Whether the function makes the same call again, with what it passes moved there."""
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.func, ast.Attribute):
        return False
    if bindings.is_move(call.args[0]):
        return False
    named = file.find(scope, ("call", histories.called_name(call)))
    moved = [n for n in named if n is not call and n.args and bindings.is_move(n.args[0])]
    return any(ast.unparse(n.func) == ast.unparse(call.func) for n in moved)


def place_of(link: Link) -> Location:
    """The LOC of a link."""
    return location_of(link.context.file, link.node if isinstance(link.node, ast.expr) else link.statement)


def is_lost_before(trail: trails.Trail, number: int) -> bool:
    """Whether the text says of one of the first links that the value should have been moved there."""
    nearest = [link for link in trail.links[:number] if not _is_owner(link.node)]
    return any(statements.said_at(link) or siblings.moved_nearby(link) for link in nearest)


def _is_owner(node: ast.AST) -> bool:
    """`return self`: the object that holds the tensor, which its own .to() can't move again."""
    return isinstance(node, ast.Name) and node.id == "self"


def _where_gathered(steps: list[histories.Step]) -> Cause | None:
    """Where samples that were made one by one became one tensor."""
    last = steps[-1] if steps else None
    if last is None or last.call is None or last.facts["action"] != "computed" or len(steps) < 2:
        return None
    gathers = histories.called_name(last.call) in _GATHERING
    written = last.call.args[0] if last.call.args else None
    if isinstance(written, (ast.List, ast.Tuple)) and all(isinstance(each, ast.Name) for each in written.elts):
        return None  # `torch.stack([a, b])`: of tensors with names of their own
    first = steps[0].facts["at"]
    elsewhere = (first["line"], first["function"]) != (last.facts["at"]["line"], last.facts["at"]["function"])
    return Cause(last.facts["at"], None) if gathers and elsewhere else None


def _cause(link: Link, device: str, users: list[types.FrameType]) -> Cause:
    file = link.context.file
    node = _lost_part(link)
    is_value = isinstance(node, ast.expr) and link.how != "loop"
    unpacked = isinstance(link.target, (ast.Tuple, ast.List)) and node is link.node
    edit = None
    inside = next((each for each in ast.walk(link.node) if nested.passed_by(each) is not None), None)
    if inside is not None:
        edit = nested.recursion(file, inside)
    elif unpacked and device.startswith("cuda") and isinstance(node, ast.Call) and batches.root(node) is not None:
        # `a, b = y.split(2)`: a tuple has no .to(), what is split has.
        words = device_text.write(file, node, device, users)
        edit = rewriting.append_call(file, node.func.value, f".to({words})")
    elif unpacked and device.startswith("cuda") and link.how == "assign" and link.name:
        edit = _below(link, device, users)
    elif siblings.elements_moved_beside(link):
        edit = file.edit([source.Change.replace(node, siblings.elements_moved_beside(link))])
    elif is_value and device.startswith("cuda") and not unpacked:
        words = device_text.write(file, node, device, users)
        made = isinstance(node, ast.Call) and histories.called_name(node) in makers.FACTORIES
        edit = None
        if made:
            edit = rewriting.device_argument(file, node, words, rewriting.is_drawn_on(node, device, users))
        beside = siblings.move_in_statement(link, device) if node is link.node else None
        suffix = rewriting.same_move(file, beside) if beside is not None else f".to({words})"
        edit = edit or rewriting.append_call(file, node, suffix)
    spot = node if is_value and node.lineno >= link.statement.lineno else link.statement
    return Cause(location_of(file, spot), edit)


def _below(link: Link, device: str, users: list[types.FrameType]) -> Edit | None:
    """`u = u.to(device)` below `(u,) = next(stream)`."""
    file, statement = link.context.file, link.statement
    if not rewriting.starts_line(file, statement) or not rewriting.ends_line(file, statement):
        return None
    words, name = device_text.write(file, statement, device, users), link.name
    held = values.name_in(link.context.frame, name) if link.context.frame is not None else None
    moved = f"{name}.to({words})"
    if isinstance(held, (list, tuple)):
        moved = f"[t.to({words}) for t in {name}]"
    elif isinstance(held, dict):
        moved = f"{{k: v.to({words}) for k, v in {name}.items()}}"
    return file.insertion(statement.end_lineno, f"{rewriting.indent_of(file, statement)}{name} = {moved}")


def _lost_part(link: Link) -> ast.AST:
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


def _is_made_there(link: Link, links: list[Link]) -> bool:
    """`return reward`, of what the same function made out of nothing: the call that made it is to be fixed."""
    is_name = link.how in ("assign", "return") and isinstance(link.node, ast.Name)
    return is_name and any(each.how == "made" and each.context.scope is link.context.scope for each in links)


def _unpacking(links: list[Link]) -> Link | None:
    """Where a loop gives the batch, or the last statement before that which binds it."""
    for number, link in enumerate(links):
        if link.how == "loop" and isinstance(link.statement, (ast.For, ast.AsyncFor)):
            before = [each for each in links[:number] if each.context.scope is link.context.scope]
            before = [each for each in before if each.how == "assign"]
            return before[-1] if before else link
        if link.how == "assign" and isinstance(link.node, ast.Call) and histories.called_name(link.node) == "next":
            return link
    return None


def _before_helper(links: list[Link], steps: list[histories.Step]) -> Link | None:
    """The line that called a function which made the value and knows of no device: it has nothing to be edited."""
    made = next((s for s in steps if s.facts["action"] == "created"), None)
    text = next((link for link in links if link.how == "made"), None) if made is None else None
    scope = text.context.scope if text is not None else None
    if made is not None and made.file is not None and made.node is not None:
        scope = next((a for a in made.file.ancestors(made.node) if isinstance(a, source.Function)), None)
    number = next((n for n, link in enumerate(links) if link.context.scope is scope and link.how == "return"), 0)
    while number > 0 and isinstance(scope, ast.FunctionDef) and scope.name != "__init__":
        link, caller = links[number], links[number - 1]
        told = _is_told_by_object(link) or (_is_given_tensors(link) and len(uses.makes_of(scope)) < 2)
        if told or caller.context.scope is scope or device_text.is_mentioned_in(scope):
            return None
        if caller.how in _BINDING and not _is_deviceless_helper(caller.context.scope):
            return caller
        # A helper of a helper: the value goes on from function to function that know of no device.
        scope = caller.context.scope
        number = next((n for n in range(number) if links[n].context.scope is scope and links[n].how == "return"), 0)
    return None


def _is_deviceless_helper(scope: ast.AST) -> bool:
    return isinstance(scope, ast.FunctionDef) and not device_text.is_mentioned_in(scope)


def _is_told_by_object(link: Link) -> bool:
    """Whether a function is a method of a module, which has parameters, or of an object that knows of devices."""
    me = link.context.me
    if values.is_module(me):
        return True
    return me is not values.MISSING and any(device_text.is_mentioned_in(tree) for _, tree in bindings.class_trees(me))


def _is_given_tensors(link: Link) -> bool:
    """Whether the call of a function passes a tensor or a module, whose device it could follow."""
    call, caller = link.context.call, link.context.caller
    if call is None or caller is None or caller.frame is None:
        return False
    given = [values.evaluate(a, caller.frame) for a in [*call.args, *(k.value for k in call.keywords)]]
    return any(values.is_tensor(value) or values.is_module(value) for value in given)


def _own_statement(links: list[Link], steps: list[histories.Step]) -> Link | None:
    """Where a value was bound that no factory call made: drawn by a distribution, computed by a layer on the CPU."""
    made = next((s for s in steps if s.facts["action"] == "created" and s.facts["at"]["line"]), None)
    if made is None and not any(s.facts["action"] in ("moved", "loaded", "received") for s in steps):
        # No history of its own, as a sparse tensor's or NumPy's memory: the text is all there is.
        given = next((link for link in links if link.how == "made"), None)
        return given or next((link for link in links if link.how == "assign" and not steps), None)
    if made is None or (made.call is not None and makers.makes_tensor(made.call)):
        return None
    computed = made.call is not None and histories.called_name(made.call)[:1].isupper()
    for link in links:
        covers = link.statement.lineno <= made.facts["at"]["line"] <= (link.statement.end_lineno or 0)
        covers = covers and link.context.file.file == made.facts["at"]["file"]
        is_empty = isinstance(link.node, (ast.List, ast.Dict, ast.Set, ast.Constant))
        if link.how in ("assign", "argument") and not is_empty and (covers or (computed and link.how == "assign")):
            return link
        if link.how in ("made", "argument"):
            return None
    return None


def _after_shared_root(
    steps: list[histories.Step],
    others: list[list[histories.Step]],
    links: list[Link],
    users: list[types.FrameType],
) -> Cause | None:
    """Where two values come from one tensor and the other one was moved later: not where that tensor was made, but
    where this value went its own way.
    """
    made = next((s for s in steps if s.facts["action"] == "created" and s.facts["at"]["line"]), None)
    last = steps[-1] if steps else None
    if made is None or last is None or last is made or last.facts["action"] != "computed":
        return None
    here = (made.facts["at"]["file"], made.facts["at"]["line"])
    if (last.facts["at"]["file"], last.facts["at"]["line"]) == here or not last.facts["at"]["line"]:
        return None
    for steps_of_other in others:
        same = [n for n, s in enumerate(steps_of_other) if (s.facts["at"]["file"], s.facts["at"]["line"]) == here]
        if same and any(s.facts["action"] == "moved" for s in steps_of_other[same[0] + 1 :]):
            made_object = _made_object(links, users) if last.facts["at"]["function"].endswith("__init__") else None
            return made_object or Cause(last.facts["at"], None)
    return None


def _made_object(links: list[Link], users: list[types.FrameType]) -> Cause | None:
    """The line that made the object whose __init__ took a copy too early."""
    owner = next((link.context.me for link in links if link.how == "attribute"), values.MISSING)
    for frame in users if owner is not values.MISSING else ():
        file = source.load(frame.f_code.co_filename)
        scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name) if file else None
        names = [name for name, value in list(frame.f_locals.items()) if value is owner]
        made = [s for name in names for s in bindings.binders(scope, name)] if scope is not None else []
        for statement in sorted(made, key=lambda s: (s.lineno, s.col_offset)):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                if any(isinstance(t, ast.Name) and t.id in names for t in statement.targets):
                    return Cause(location_of(file, statement), None)
    return None


def location_of(file: source.Source, node: ast.AST) -> Location:
    """The LOC of a node; of a compound statement, its first line."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    scope = next((a for a in [node, *file.ancestors(node)] if isinstance(a, functions)), None)
    names = [a.name for a in ([scope, *file.ancestors(scope)] if scope is not None else []) if hasattr(a, "name")]
    end = node.body[0].lineno - 1 if isinstance(getattr(node, "body", None), list) else node.end_lineno
    whole = end == node.end_lineno
    return places.location(
        file.file, node.lineno, max(end, node.lineno), node.col_offset if whole else -1,
        node.end_col_offset if whole else -1, ".".join(reversed(names)) or "<module>",
    )  # fmt: skip
