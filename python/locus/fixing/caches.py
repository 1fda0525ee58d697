"""What a program keeps from one call to the next: by lru_cache and its like, or in a table that a function fills when
it is asked for something new.

Reads trees only. A cache is wrong not where it is made but where it is asked: whoever filled it was elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from locus.fixing import device_text, rewriting
from locus.program import source, values

if TYPE_CHECKING:
    from locus.fixing.edits import Request
    from locus.program import histories
    from locus.program.links import Context
    from locus.program.shapes import Edit

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_cached(steps: list[histories.Step], name: str) -> bool:
    """Whether a tensor was kept from an earlier call."""
    for step in steps:
        around = step.file.ancestors(step.node) if step.file is not None and step.node is not None else ()
        scope = next((a for a in around if isinstance(a, _FUNCTIONS)), None)
        if scope is None:
            continue
        if remembers(scope):
            return True
        root, bracket, _ = name.partition("[")
        if bracket and ("cache" in root.lower() or "memo" in root.lower()):
            return True
    return not _is_made_by_default(steps) and next(_fillers(steps, name), None) is not None


def remembers(scope: ast.AST) -> bool:
    """Whether a function keeps what it gave: `@lru_cache`."""
    decorators = [ast.unparse(decorator) for decorator in getattr(scope, "decorator_list", ())]
    return any("cache" in text or "memo" in text for text in decorators)


def serves_anybody(context: Context) -> bool:
    """Whether a function keeps what it gave for callers of any device. A cached property is its object's alone."""
    is_own = context.me is not values.MISSING
    return remembers(context.scope) and not is_own and not device_text.is_mentioned_in(context.scope)


def _is_made_by_default(steps: list[histories.Step]) -> bool:
    """Whether the tensor would have been on the CPU at every call: then the call that made it is to be fixed."""
    placed = next((step.facts for step in reversed(steps) if step.facts["action"] != "computed"), None)
    return placed is None or (placed["action"] == "created" and not placed["explicit"] and placed["device"] == "cpu")


def move_cached(request: Request) -> Edit | None:
    """`return _MASKS[n]` -> `return _MASKS[n].to(device)`, in the function that fills the table."""
    for file, given in _fillers(request.steps, request.facts["name"]):
        if given is None:
            continue
        words = device_text.write(file, given, request.device, request.users)
        if not words.startswith('"'):  # a device that is written down would be wrong for the next caller
            return rewriting.append_call(file, given, f".to({words})")
    return None


def _fillers(steps: list[histories.Step], name: str) -> Iterator[tuple[source.Source, ast.AST | None]]:
    """What the functions return of the table that a tensor was found in, which look into it and put something there
    where it is new; None where that is not plain."""
    text = _table(name)
    files = {id(step.file): step.file for step in steps if step.file is not None}
    for file in files.values() if text else ():
        filled = file.once(_filled_entries if "[" in name else _filled_slots)
        for given in filled.get(text, ()):
            yield file, given


def _filled_entries(file: source.Source) -> dict[str, list[ast.AST | None]]:
    """What the functions of a file return that look into a table and put something there, by the table's name."""
    return _by_name(file, _entries_filled_by)


def _filled_slots(file: source.Source) -> dict[str, list[ast.AST | None]]:
    """What the functions of a file return that fill a variable or an attribute where it is empty, by its name."""
    return _by_name(file, _slots_filled_by)


def _by_name(file: source.Source, filled_by: Callable[[ast.AST], set[str]]) -> dict[str, list[ast.AST | None]]:
    found: dict[str, list[ast.AST | None]] = {}
    for scope in ast.walk(file.tree):
        if isinstance(scope, _FUNCTIONS) and scope.name != "__init__":
            for text in filled_by(scope):
                known, given = found.setdefault(text, []), _returned(scope, text)
                if given is not None or not known:  # of the others it is enough to know that there is one
                    known.append(given)
    return found


def _returned(scope: ast.AST, text: str) -> ast.AST | None:
    given = [n.value for n in ast.walk(scope) if isinstance(n, ast.Return) and n.value is not None]
    given = [node for node in given if isinstance(node, (ast.Subscript, ast.Name, ast.Attribute))]
    return given[0] if len(given) == 1 and _last_name(given[0]) == text else None


def _table(name: str) -> str:
    """`_MASKS` of _MASKS[5], `tables` of config.tables["a"]: the last name before what is looked up."""
    found = re.match(r"[\w.]*?(\w+)(?:\[.*\])?$", name)
    return found[1] if found is not None else ""


def _last_name(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _entries_filled_by(scope: ast.AST) -> set[str]:
    """`if n not in _MASKS: _MASKS[n] = …`, `_MASKS.setdefault(n, …)`, `try: … except KeyError: _MASKS[n] = …`."""
    stored: set[str] = set()
    looked: set[str] = set()
    catches = False
    for node in ast.walk(scope):
        if isinstance(node, ast.Subscript):
            if isinstance(node.ctx, ast.Store):
                stored.add(_last_name(node))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            looked.add(_last_name(node.comparators[0]))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("get", "setdefault"):
                looked.add(_last_name(node.func.value))
            if node.func.attr == "setdefault":
                stored.add(_last_name(node.func.value))
        elif isinstance(node, ast.Try):
            caught = [ast.unparse(handler.type) for handler in node.handlers if handler.type is not None]
            catches = catches or any("KeyError" in each for each in caught)
    return stored if catches else stored & looked


def _slots_filled_by(scope: ast.AST) -> set[str]:
    """`if _MASK is None: _MASK = …`, of a name that outlives the function."""
    outlives = {name for node in ast.walk(scope) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    found: set[str] = set()
    for node in ast.walk(scope):
        if not isinstance(node, ast.If):
            continue
        asked = _asked_for(node.test)
        for inner in node.body if asked else ():
            targets: list[ast.expr] = inner.targets if isinstance(inner, ast.Assign) else []
            targets = [inner.target] if isinstance(inner, (ast.AnnAssign, ast.AugAssign)) else targets
            for target in targets:
                kept = isinstance(target, ast.Attribute) or (isinstance(target, ast.Name) and target.id in outlives)
                if kept and _last_name(target) in asked:
                    found.add(_last_name(target))
    return found


def _asked_for(test: ast.AST) -> set[str]:
    """`x` of `x is None`, `not hasattr(self, "x")`, `x is None or x.size(0) < n`."""
    found: set[str] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is):
            found.add(_last_name(node.left))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr") and len(node.args) > 1:
            if isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
                found.add(node.args[1].value)
    return found
