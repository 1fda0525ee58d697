"""What a program does with the values that came with one: where the rest is moved, this one was forgotten.

Reads trees, and values only where a frame runs them.
"""

from __future__ import annotations

import ast
import types
from typing import TypeGuard

from locus.fixing import device_text, rewriting
from locus.program import batches, bindings, histories, makers, text_index, values
from locus.program.links import Link, flow_of


def moved_in_statement(link: Link) -> bool:
    """`x, y = x.to(device), y`: other values are moved in the same statement."""
    return bool(_placed_in_statement(link))


def move_in_statement(link: Link, device: str) -> bindings.Move | None:
    """The `x.to(device)` beside a value, to be made with the value as well; None where it goes to another device."""
    moves = [node for node in _placed_in_statement(link) if bindings.is_move(node)]
    if not moves or not moves[0].args or isinstance(moves[0].args[0], (ast.Constant, ast.JoinedStr)):
        return None
    return moves[0] if goes_to(moves[0], link.context.frame, device) else None


def goes_to(move: bindings.Move, frame: types.FrameType | None, device: str) -> bool:
    """Whether `x.to(words)` puts things on the device, as far as is known."""
    value = values.evaluate(move.args[0], frame) if frame is not None and move.args else values.MISSING
    return value is values.MISSING or device_text.same_device(value, device)


def _placed_in_statement(link: Link) -> list[ast.AST]:
    file = link.context.file
    inside = set(map(id, ast.walk(link.node)))
    around = list(file.ancestors(link.node))
    header: ast.AST = link.statement
    if hasattr(header, "body") or any(places_tensor(node) for node in ast.walk(link.node)):
        return []
    if link.how == "argument" and _is_right_later(link):
        return []
    if link.how == "argument":  # what else the same call is given
        header = next((node for node in around if isinstance(node, ast.Call)), header)
    elif link.how == "assign" and isinstance(link.target, ast.Name):
        if not isinstance(file.parent(link.node), ast.Tuple):
            return []
    above = set(map(id, around))
    moves = [node for node in ast.walk(header) if places_tensor(node) or _is_moved_by_helper(link, node)]
    return [move for move in moves if id(move) not in inside and id(move) not in above]


def _is_right_later(link: Link) -> bool:
    """`y, h = step(x.to(device), h)` in a loop, for the h of before the loop: each later one is what the loop bound."""
    flow = flow_of(link.context.file, link.context.scope)
    reach = flow.reach(link.node) if flow is not None and isinstance(link.node, ast.Name) else ()
    own = [
        each for each in reach if each.carried and link.context.file.statement(each.definition.node) is link.statement
    ]
    return bool(own) and any(not each.carried for each in reach)


def _is_moved_by_helper(link: Link, node: ast.AST) -> bool:
    """`take(rows)`, of a `take = lambda t: t[index].to(device)` in the same function."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    for statement in bindings.binders(link.context.scope, name) if name else ():
        for target, value in bindings.pairs(statement):
            if isinstance(target, ast.Name) and target.id == name and isinstance(value, ast.Lambda):
                return bindings.is_move(value.body) and moves_tensor(value.body)
    return False


def places_tensor(node: ast.AST) -> bool:
    """`x.to(device)`, `torch.zeros(3, device=device)`: says where a tensor shall be."""
    if bindings.is_move(node):
        return moves_tensor(node)
    given = node.keywords if isinstance(node, ast.Call) and makers.makes_tensor(node) else []
    return any(keyword.arg == "device" for keyword in given)


def moves_tensor(move: bindings.Move) -> bool:
    """Not `Net().to(device)`."""
    made = move.func.value
    return not (isinstance(made, ast.Call) and histories.called_name(made)[:1].isupper())


def moved_nearby(link: Link) -> bool:
    """Whether the statements around one move the rest of what came with the value."""
    if link.how not in ("assign", "loop", "return", "attribute", "put"):
        return False
    if _is_left_among(link) or moved_in_loop(link):
        return True
    if link.how != "loop" and batches.root(link.node) is None and not _is_part_moved_beside(link):
        return False  # a new value: where it belongs is its own affair
    file, statement = link.context.file, link.statement
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        moving = [other for other in statement.body if _moves_something(other)]
    else:
        parent = file.parent(statement)
        moving = text_index.once(parent, _moving).get(statement, []) if parent is not None else []
    return any(other is not statement and not _is_bound_by(other, link.target) for other in moving)


def _is_part_moved_beside(link: Link) -> bool:
    """`y = data[:, 1]` beside `x = data[:, 0].to(device)`."""
    if not isinstance(link.node, ast.Subscript):
        return False
    whole = ast.unparse(link.node.value)
    values_ = [value for each in link.context.file.block(link.statement) for _, value in bindings.pairs(each)]
    moved = [value.func.value for value in values_ if bindings.is_move(value)]
    return any(isinstance(each, ast.Subscript) and ast.unparse(each.value) == whole for each in moved)


def _moving(parent: ast.AST) -> dict[ast.stmt, list[ast.stmt]]:
    """The statements inside one, with those of the same block that move something."""
    found: dict[ast.stmt, list[ast.stmt]] = {}
    for block in text_index.blocks(parent):
        moving = [statement for statement in block if _moves_something(statement)]
        found.update(dict.fromkeys(block, moving))
    return found


def _moves_something(statement: ast.stmt) -> bool:
    """`x = y.to(device).float()`."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not bindings.is_move(value):
        value = value.func.value
    return bindings.is_move(value) and moves_tensor(value)


def _is_bound_by(statement: ast.stmt, target: ast.AST | None) -> bool:
    """Whether a statement binds the value's own name: it would have moved it."""
    bound = [ast.unparse(each) for each, _ in bindings.pairs(statement)]
    return target is not None and ast.unparse(target) in bound


def _is_left_among(link: Link) -> bool:
    """`return weights, s, a`, `queue.put((x, y))`: what is given together was placed by the function, but for this."""
    together = link.context.file.parent(link.node)
    if link.how not in ("return", "put", "assign") or not isinstance(link.node, ast.Name):
        return False
    if not isinstance(together, (ast.Tuple, ast.List, ast.Dict)):
        return False
    given = together.values if isinstance(together, ast.Dict) else together.elts
    others = {each.id for each in given if isinstance(each, ast.Name)} - {link.node.id}
    return any(
        isinstance(target, ast.Name) and target.id == other and places_tensor(value)
        for other in others
        for statement in bindings.binders(link.context.scope, other)
        for target, value in (bindings.pairs(statement) if isinstance(statement, ast.Assign) else ())
    )


def is_rebound_beside(link: Link) -> bool:
    """`y = y.float()` directly before or after a statement that moves what came with it: y is moved there."""
    target = link.target.id if isinstance(link.target, ast.Name) else ""
    if link.how != "assign" or not target or batches.root(link.node) != target:
        return False
    block = link.context.file.block(link.statement)
    place = block.index(link.statement) if link.statement in block else 0
    beside = [*block[max(0, place - 1) : place], *block[place + 1 : place + 2]]
    return any(_moves_variables(each) and not _is_bound_by(each, link.target) for each in beside)


def _moves_variables(statement: ast.stmt) -> bool:
    """`x = x.to(device)`, `x, y = x.to(device), y.to(device)`."""
    moves = [(target, value) for target, value in bindings.pairs(statement) if bindings.is_move(value)]
    return any(ast.unparse(value.func.value) == ast.unparse(target) for target, value in moves)


def elements_moved_beside(link: Link) -> str:
    """`[t.to(device) for t in val]` for `self.val = val`, where the block has the same for another name; else ""."""
    if link.how not in ("attribute", "assign") or not isinstance(link.node, ast.Name):
        return ""
    file = link.context.file
    for statement in file.block(link.statement):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)) and bindings.is_move(value.elt):
            given = value.generators[0].iter
            if len(value.generators) == 1 and isinstance(given, ast.Name) and given.id != link.node.id:
                start, whole = file.segment(value), file.segment(given)
                place = start.rfind(whole)
                return start[:place] + link.node.id + start[place + len(whole) :]
    return ""


def moved_later(link: Link) -> bindings.OwnMove | None:
    """`test_x = test_x.cuda()` below `test_x, test_y = load()`: the last such statement for what was bound together
    with a value, where the value itself is not moved so."""
    if link.how == "assign" and isinstance(link.target, ast.Name) and link.target is not link.node:
        return _moved_in_row(link, link.target.id)
    if link.how != "assign" or not isinstance(link.target, (ast.Tuple, ast.List)):
        return None
    names = set(batches.targets(link.target))
    later = [s for s in batches.statements(link.context.scope) if s.lineno > link.statement.lineno]
    moves = {_moved_variable(statement): statement for statement in later if _moves_variable(statement)}
    if link.name in moves:
        return None
    others = [move for name, move in moves.items() if name in names - {link.name}]
    fellows = [move for move in others if is_bound_at(link, move.value.func.value)]
    return fellows[-1] if fellows else None


def _moved_in_row(link: Link, name: str) -> bindings.OwnMove | None:
    """The last of several statements `x = x.cuda()` in a row, under a condition or not, below the one that binds this
    name, which is not among theirs."""
    row: list[ast.stmt] = []
    for statement in [*rewriting.statements_after(link.context.file, link.statement), None]:
        if statement is not None and _moves_variable(statement):
            row.append(statement)
            continue
        for each in [row, statement.body] if isinstance(statement, ast.If) else [row]:
            moves = [move for move in each if _moves_variable(move)]
            if len(moves) == len(each) > 1 and _are_fellows(moves, link, name):
                return moves[-1]
        row = []
    return None


def _moves_variable(statement: ast.stmt) -> TypeGuard[bindings.OwnMove]:
    """`x = x.to(device)`."""
    return rewriting.moves_itself(statement) and bindings.is_move(statement.value) and bool(_moved_variable(statement))


def _moved_variable(move: bindings.OwnMove) -> str:
    return move.targets[0].id if isinstance(move.targets[0], ast.Name) else ""


def _are_fellows(moves: list[bindings.OwnMove], link: Link, name: str) -> bool:
    """Whether statements move variables that are bound in the same block as this one, and not this one."""
    names = [_moved_variable(move) for move in moves]
    file, block = link.context.file, link.context.file.parent(link.statement)
    beside = [each for each in names for s in bindings.binders(link.context.scope, each) if file.parent(s) is block]
    return name not in names and bool(beside)


def is_bound_at(link: Link, moved: ast.expr) -> bool:
    """Whether what is moved is what the link's statement has bound, and not something later of that name."""
    file = link.context.file
    flow = flow_of(file, link.context.scope)
    reaching = flow.reaching(moved) if flow is not None and isinstance(moved, ast.Name) else ()
    return any(each.node is link.statement or file.statement(each.node) is link.statement for each in reaching)


def is_moved_in(link: Link, statement: ast.stmt) -> bool:
    """`loss = criterion(model(x.to(device)), y)` in `for x, y in pairs:`: what a loop gives beside a value is moved in
    the very statement that uses the value, and nowhere else."""
    moves = moved_in_loop(link)
    return bool(moves) and all(link.context.file.statement(move) is statement for move in moves)


def moved_in_loop(link: Link) -> list[bindings.Move]:
    """The moves of what a loop gives beside a value: `x.to(device)` in `for x, y in pairs:`."""
    loop, names = link.statement, batches.targets(link.target) if link.target is not None else []
    if link.how != "loop" or not isinstance(loop, (ast.For, ast.AsyncFor)) or link.name not in names:
        return []
    inside = [node for statement in loop.body for node in ast.walk(statement) if bindings.is_move(node)]
    return [n for n in inside if isinstance(n.func.value, ast.Name) and n.func.value.id in set(names) - {link.name}]
