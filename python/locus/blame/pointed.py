"""Which line of a value's way its history points at: where a batch is taken apart, a helper was called that knows of no
device, several values became one, or two that were one parted.

Reads histories, trees and live frames; runs nothing.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

from locus.blame import placings, siblings, uses
from locus.blame.candidates import Cause, location_of
from locus.fixing import device_text, rewriting
from locus.program import bindings, histories, makers, source, trails, values
from locus.program.links import Link
from locus.program.shapes import Edit
from locus.program.text_index import last_line
from locus.vocabulary import Fact

_BINDING = ("assign", "argument", "attribute")
_GATHERING = {"stack", "cat", "concat", "pad_sequence", "vstack", "hstack", "default_collate", "collate"}


def on_way(
    links: list[Link], is_said: bool, steps: list[histories.Step], trail: trails.Trail, is_batch: bool,
    used_in: ast.stmt | None,
) -> Iterator[tuple[int, Fact]]:  # fmt: skip
    """What the links together with the value's history say of one of them; `is_said`: a statement says it by itself."""
    for number, each in enumerate(links):
        if number == 0 and used_in is not None and siblings.is_moved_in(each, used_in):
            continue  # moved there in passing: so is this
        if siblings.is_rebound_beside(each) or (siblings.moved_nearby(each) and not _is_made_there(each, links)):
            yield number, "rest_is_moved"
    pointed: list[tuple[Link | None, Fact]] = []
    if is_batch:
        pointed.append((_unpacking(links), "unpacked_here"))
    actions = [step.facts["action"] for step in steps]
    if trail.held and not is_said and "received" in actions and actions[-1] == "computed":
        # Computed on the host with what is kept there: it goes over when that is done.
        before = trail.links[: trail.held[0][2]]
        done = next((each for each in before if each.how == "assign" and each.context.frame is not None), None)
        pointed.append((done, "computed_with_held"))
    pointed.append((_before_helper(links, steps), "helper_knows_no_device"))
    pointed.append((_own_statement(links, steps), "bound_here"))
    for link, fact in pointed:
        yield from ((n, fact) for n, each in enumerate(links) if each is link)


def off_way(
    steps: list[histories.Step],
    others: list[list[histories.Step]],
    links: list[Link],
    users: list[types.FrameType],
) -> Iterator[tuple[Cause, Fact]]:
    """What the history alone says: where values were gathered, and where two parted."""
    gathered = _where_gathered(steps)
    if gathered is not None:
        yield gathered, "gathered_here"
    parted = _after_shared_root(steps, others, links, users)
    if parted is not None:
        yield parted, "parted_here"


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
        told = _is_told_by_object(link) or (_is_given_tensors(link) and not _makes_several(link.context.file, scope))
        if told or caller.context.scope is scope or device_text.is_mentioned_in(scope):
            return None
        if caller.how in _BINDING and not _is_deviceless_helper(caller.context.scope):
            return caller
        # A helper of a helper: the value goes on from function to function that know of no device.
        scope = caller.context.scope
        number = next((n for n in range(number) if links[n].context.scope is scope and links[n].how == "return"), 0)
    return None


def _makes_several(file: source.Source, scope: ast.AST) -> bool:
    """Whether a function makes several values, each of which would have to be placed; not what only picks from them."""
    made = 0
    for call in uses.makes_of(scope):
        bound = [target for target, _ in bindings.pairs(file.statement(call))]
        name = bound[0].id if len(bound) == 1 and isinstance(bound[0], ast.Name) else ""
        reads = file.find(scope, ("load", name)) if name else []
        made += not (reads and all(placings.is_picking(file, node) for node in reads))
    return made > 1


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
        if link.how == "made" or (link.how == "argument" and not isinstance(link.node, ast.Name)):
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
        if file is None:
            continue
        scope = file.function_at(frame.f_code.co_firstlineno, frame.f_code.co_name)
        names = [name for name, value in values.at_rest(frame.f_locals).items() if value is owner]
        made = [s for name in names for s in bindings.binders(scope, name)] if scope is not None else []
        for statement in sorted(made, key=lambda s: (s.lineno, s.col_offset)):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                if any(isinstance(t, ast.Name) and t.id in names for t in statement.targets):
                    return Cause(location_of(file, statement), _after_move(file, statement))
    return None


def _after_move(file: source.Source, statement: ast.Assign) -> Edit | None:
    """`ema = EMA(model)` below the `model.to(device)` that follows it in the same block."""
    given = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
    made = {n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    between: list[ast.stmt] = []
    for later in rewriting.statements_after(file, statement):
        value = later.value if isinstance(later, (ast.Expr, ast.Assign)) else None
        if bindings.is_move(value) and isinstance(value.func.value, ast.Name) and value.func.value.id in given:
            lines = [rewriting.has_lines(file, each) for each in [statement, *between, later]]
            used = {n.id for each in [*between, later] for n in ast.walk(each) if isinstance(n, ast.Name)}
            if not all(lines) or made & used:
                return None
            text = f"\n{rewriting.indent_of(file, statement)}{file.segment(statement)}"
            above = source.Change(statement.lineno, 0, last_line(statement) + 1, 0, "")
            return file.edit([above, source.Change.after(later, text)])
        between.append(later)
    return None
