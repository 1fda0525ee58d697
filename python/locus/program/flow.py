"""Definitions and uses: which bindings of a name may be the ones that are read at a place, scope by scope.

Knows syntax trees and nothing else: no frames, no values, no other files. What it takes for granted:

- A call overwrites nothing. What it does to attributes, or to names by `globals()` and `exec`, is not seen; nor is an
  object that has two names (`a = self; a.x = 1` says nothing of `self.x`).
- `x[k] = v` and `xs.append(v)` add to what reaches `x`; only `d["a"] = v` overwrites `d["a"]`, of all items.
- A function may be called at any time after it is made: a name that it takes from around it may be any definition that
  reaches the place where the function is made, or that comes after it. The same goes for a lambda, and for a generator
  expression other than the only argument of a call. A class's body runs where it stands.
- What a function binds by `global` and `nonlocal`, or puts into containers and attributes of names around it, may
  happen at any time after it is made, and nothing overwrites it for good. It is looked up outwards only: another
  function's writes don't come between two lines of this one.
- Every statement in a `try` may raise before it binds. Every context manager may swallow what is raised: Reach says
  where a definition reaches only by that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from locus.program.flow_blocks import Context, Place
from locus.program.flow_facts import Facts, numbers
from locus.program.flow_scopes import Scopes, build, owns
from locus.program.flow_values import (
    Definition,
    Kind,
    Member,
    Part,
    Path,
    Scope,
    Star,
    Step,
    container,
    dotted,
    narrow,
    select,
)

__all__ = [
    "Definition",
    "Flow",
    "Kind",
    "Member",
    "Part",
    "Path",
    "Reach",
    "Scope",
    "Star",
    "Step",
    "narrow",
    "select",
]


@dataclass(frozen=True)
class Reach:
    """A definition that may be seen at a use, and how it gets there."""

    definition: Definition
    carried: bool = False
    """Only from an earlier iteration of a loop around the use."""
    swallowed: bool = False
    """Only if a context manager swallows an exception."""


class Flow:
    """The definitions and uses of a scope, and of the scopes inside it."""

    def __init__(self, scope: Scope, _outer: Flow | None = None, _scopes: Scopes | None = None):
        self.scope = scope
        self.outer = _outer
        """The flow of the scope around it, where it was made from one."""
        self._scopes = _scopes if _scopes is not None else build(scope)
        self._graph = self._scopes.graphs[scope]
        self._facts_: Facts | None = None
        self._flows: dict[ast.AST, Flow] = {}

    @property
    def _facts(self) -> Facts:
        if self._facts_ is None:
            self._facts_ = Facts(self._graph)
        return self._facts_

    # Questions about places.

    def reaching(self, use: ast.AST) -> tuple[Definition, ...]:
        """The definitions that may be read by a name, a dotted attribute or an item, as evaluated there; nearest first.

        Of an attribute, definitions of this very path (see `owners`); of an item, those of its container, without
        other items of it. A deleted name is a definition, too. () for anything that is not read here.
        """
        return tuple(one.definition for one in self.reach(use))

    def reach(self, use: ast.AST) -> tuple[Reach, ...]:
        """reaching(), and how each gets there."""
        return tuple(one for one in self._reach(use) if not _shorter(one.definition, use))

    def owners(self, use: ast.AST) -> tuple[Definition, ...]:
        """Of a dotted attribute: definitions of `self`, for `self.x`, that may have brought the value along."""
        return tuple(one.definition for one in self._reach(use) if _shorter(one.definition, use))

    def reaches(self, definition: Definition, use: ast.AST) -> bool:
        """Whether a definition may be what is read."""
        return definition in self.reaching(use)

    def reaching_before(self, node: ast.AST, name: str) -> tuple[Definition, ...]:
        """The definitions of a name (or `self.x`) at a statement's start, or where an expression is evaluated."""
        flow, places = self._home(node)
        return flow._named(name, places)

    def reaching_after(self, statement: ast.stmt, name: str) -> tuple[Definition, ...]:
        """The definitions of a name (or `self.x`) where a statement has ended regularly."""
        flow, places = self._home(statement)
        ends = flow._graph.ends.get(statement, ()) if places else ()
        return flow._named(name, tuple(replace(places[0], block=block, events=events) for block, events in ends))

    def reaching_end(self, name: str) -> tuple[Definition, ...]:
        """The definitions of a name (or `self.x`) where the scope ends regularly, by `return` or at its last line."""
        return self._named(name, (Place(1, 0, self._graph.clock, Context()),))

    def possibly_unbound(self, use: ast.AST) -> bool:
        """Whether a name may have no value there: not bound yet, or deleted. A module's may be a builtin's then."""
        flow, places = self._home(use)
        if not isinstance(use, ast.Name):
            return False
        for place in places:
            for fact in numbers(flow._facts.at(flow._graph.key(use.id, place.context.names), place)):
                definition = flow._facts.definitions[fact]
                if definition is None or definition.kind == "delete":
                    return True
        return False

    def runs(self, node: ast.AST) -> bool:
        """Whether a statement or expression is ever come to: not after a `return`."""
        flow, places = self._home(node)
        return any(flow._facts.reached(place) for place in places)

    def loops_around(self, node: ast.AST) -> tuple[ast.AST, ...]:
        """The loops (`for`, `while`, `ast.comprehension`) that repeat a statement or expression; innermost first."""
        places = self._home(node)[1]
        return places[0].context.loops if places else ()

    # Questions about definitions.

    def definitions(self, name: str | None = None) -> tuple[Definition, ...]:
        """All definitions of a name (or `self.x`) in this scope, or all there are; in the order of evaluation."""
        return tuple(dict.fromkeys(one for one, _ in self._all() if name is None or one.name == name))

    def rebinders(self, name: str) -> tuple[ast.AST, ...]:
        """The scopes inside that bind a name of this one, by `global` or `nonlocal`."""
        return tuple(dict.fromkeys(by for one, by in self._all() if by and one.name == name and one.kind == "free"))

    def uses_of(self, definition: Definition) -> tuple[ast.expr, ...]:
        """The names and attributes, here and in the scopes inside, that may read a definition; by line."""
        found: list[ast.expr] = []
        flows: list[Flow] = [self]
        while flows:
            flow = flows.pop()
            for node in flow._graph.places:
                if isinstance(node, (ast.Name, ast.Attribute)) and _path(node) == definition.name:
                    if any(one.definition == definition for one in flow._reach(node)):
                        found.append(node)
            flows.extend(flow.of(scope) for scope in flow._graph.nested)
        return tuple(sorted(found, key=lambda node: (node.lineno, node.col_offset)))

    def is_overwritten(self, definition: Definition, at: ast.AST) -> bool:
        """Whether `at` (a statement's start, or an expression) may run after a definition, but never sees it."""
        flow, places = self._home(at)
        clock = next(
            (event.clock for block in flow._graph.blocks for event in block.events if event.definition == definition),
            None,
        )
        if clock is None or not places or definition in flow._named(definition.name, places):
            return False
        return any(flow._facts.follows(place, clock) for place in places)

    def of(self, scope: ast.AST) -> Flow:
        """The flow of a scope inside this one, at any depth; its free names are found in this one."""
        inward: list[ast.AST] = []
        node: ast.AST | None = scope
        while node is not self.scope:
            if node is None:
                raise KeyError("this scope is not inside the flow's")
            inward.append(node)
            node = self._scopes.outer.get(node)
        flow = self
        for inner in reversed(inward):
            if inner not in flow._flows:
                flow._flows[inner] = Flow(cast(Scope, inner), flow, self._scopes)
            flow = flow._flows[inner]
        return flow

    # How it is worked out.

    def _all(self) -> Iterator[tuple[Definition, ast.AST | None]]:
        """Every definition of the scope; with the scope inside that makes it."""
        seen = sorted(
            (event.clock, i, event) for i, event in enumerate(e for b in self._graph.blocks for e in b.events)
        )
        for _, _, event in seen:
            if event.definition is not None:
                yield event.definition, None
            for extra in event.extras:
                yield extra.definition, extra.by

    def _home(self, node: ast.AST) -> tuple[Flow, tuple[Place, ...]]:
        """The scope that a node is evaluated in, and its places there: several in a `finally`, none for other nodes."""
        flow = self
        if node not in self._graph.places:
            home = self._scopes.home(node)
            inside = home
            while inside is not None and inside is not self.scope:
                inside = self._scopes.outer.get(inside)
            if home is None or inside is None:
                return self, ()
            flow = self.of(home)
        return flow, flow._graph.places[node]

    def _reach(self, use: ast.AST) -> list[Reach]:
        flow, places = self._home(use)
        if not isinstance(use, (ast.Name, ast.Attribute, ast.Subscript)) or not places:
            return []
        base: ast.AST = use
        item: str | None = None
        if isinstance(use, ast.Subscript):
            base = use.value
            if isinstance(use.slice, ast.Constant) and isinstance(use.slice.value, str):
                item = use.slice.value
        path = dotted(base)
        if path is None:
            return []
        found = flow._look(*path, item, places)
        return found if item is None else [one for one in found if _item(one.definition) in (None, item)]

    def _named(self, name: str, places: tuple[Place, ...]) -> tuple[Definition, ...]:
        root, dot, rest = name.partition(".")
        found = self._look(root, dot + rest, None, places)
        return tuple(one.definition for one in found if one.definition.name == name)

    def _look(
        self, root: str, rest: str, item: str | None, places: tuple[Place, ...], deferred: bool = False
    ) -> list[Reach]:
        """What reaches a path: a plain name, attributes after it, and perhaps an item."""
        facts, graph = self._facts, self._graph
        every = calm = forward = later = clock = 0
        for place in places:
            key = graph.key(root, place.context.names)
            late = deferred or (place.context.deferred and "#" not in key)
            key += rest
            if item is not None and facts.knows(f"{key}[{item!r}]"):
                key = f"{key}[{item!r}]"
            while not facts.knows(key) and "." in key:
                key = key.rpartition(".")[0]
            every |= facts.at(key, place)
            calm |= facts.at(key, place, "calm")
            forward |= facts.at(key, place, "forward")
            later |= facts.at_or_later(key, place) if late else 0
            clock = max(clock, place.clock)

        found: dict[Definition, Reach] = {}
        outside: list[Reach] = []

        def order(fact: int) -> tuple[bool, bool, bool, int]:
            at = facts.clocks[fact]
            return not calm >> fact & 1, not forward >> fact & 1, at > clock, -at

        for fact in sorted(numbers(every | later), key=order):
            definition = facts.definitions[fact]
            if definition is None:
                continue
            if definition.kind == "free" and definition.node is self.scope:
                outside = self._outside(root, rest, item)
                if outside:
                    continue
            here = every >> fact & 1
            found[definition] = Reach(
                definition, bool(here and not forward >> fact & 1), bool(here and not calm >> fact & 1)
            )
        for one in outside:
            found.setdefault(one.definition, one)
        return list(found.values())

    def _outside(self, root: str, rest: str, item: str | None) -> list[Reach]:
        """What reaches a path from the scopes around this one; [] where nothing is known of them."""
        flow, at_once = self, True
        everywhere = root in self._graph.globals
        while flow.outer is not None:
            at_once = at_once and isinstance(flow.scope, ast.ClassDef)
            places = tuple(place for place, _ in flow.outer._graph.nested[flow.scope])
            flow = flow.outer
            if not everywhere and owns(flow._graph, root, places[0]):
                return flow._look(root, rest, item, places, not at_once)
            everywhere = everywhere or root in flow._graph.globals
        if isinstance(flow.scope, ast.ClassDef) or flow is self:
            return []
        return flow._look(root, rest, item, places, not at_once)


def _path(node: ast.AST) -> str | None:
    path = dotted(node)
    return None if path is None else path[0] + path[1]


def _shorter(definition: Definition, use: ast.AST) -> bool:
    """Whether a definition is of something that a path only leads through."""
    return definition.name != _path(use.value if isinstance(use, ast.Subscript) else use)


def _item(definition: Definition) -> str | None:
    """The key in quotes that an item is set at, or is inside of."""
    box = container(definition.target) if definition.kind in ("item", "put") else None
    return None if box is None else box.key
