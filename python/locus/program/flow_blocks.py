"""Blocks of a control flow graph, and what is bound in them: the ground that flow_graph.py builds on.

Every visit is a generator that yields the visits inside it, and run() drives them with a stack of its own: the depth of
a program is not the depth of Python's stack.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

from locus.program.flow_values import Definition, Kind, Path, narrow

Visit = Generator["Visit", None, None]
Jump = Literal["normal", "raise", "return", "break", "continue"]

_WEAK = ("item", "put")


@dataclass(frozen=True)
class Names:
    """Names that mean something else inside a comprehension (or the head of a generic function) than outside."""

    keys: dict[str, str]
    outer: Names | None


@dataclass(frozen=True)
class Context:
    """What is around a place."""

    names: Names | None = None
    loops: tuple[ast.AST, ...] = ()
    """Innermost first: `for`, `while`, `ast.comprehension`."""
    deferred: bool = False
    """Inside a generator expression that is not consumed at once: it sees what is bound later, too."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point of evaluation: in a block, after so many of its events."""

    block: int
    events: int
    clock: int
    context: Context


@dataclass(slots=True)
class Extra:
    """A definition that an event brings along, and that overwrites nothing."""

    definition: Definition
    key: str
    sticky: bool
    """Nothing overwrites it: a function that rebinds a global may be called again at any time."""
    by: ast.AST
    """The function that does it."""


@dataclass(slots=True)
class Event:
    """A binding. Its key is its name, as one of the scope or one of a comprehension."""

    definition: Definition | None
    key: str
    clock: int
    strong: bool = True
    item: str | None = None
    exact: bool = False
    extras: list[Extra] = field(default_factory=list)


class Block:
    """Events that follow each other, and where it goes on."""

    __slots__ = ("after", "back", "events", "handler", "swallowed")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.after: list[int] = []
        self.back: tuple[int, int] | None = None
        """Of the end of a loop's body: the loop's head, and where the loop ends."""
        self.swallowed: int | None = None
        """Where it goes on if a context manager swallows what was raised."""
        self.handler: int | None = None
        """Where it goes on if it raises, before its event."""


class Frame:
    """Something around a statement that a jump out of it has to pass, or arrives at."""

    __slots__ = ("breaks", "catch", "catching", "continues", "copies", "finally_", "outer", "shared")

    def __init__(
        self,
        outer: Frame | None,
        *,
        breaks: int | None = None,
        continues: int | None = None,
        catch: int | None = None,
        finally_: Callable[[], Visit] | None = None,
        shared: bool = False,
    ):
        self.outer = outer
        self.breaks = breaks
        self.continues = continues
        self.catch = catch
        self.finally_ = finally_
        self.shared = shared
        self.copies: dict[Jump | Literal["any"], tuple[int, set[Jump]]] = {}
        self.catching: bool = catch is not None or finally_ is not None or (outer is not None and outer.catching)


def run(visit: Visit) -> None:
    """Runs a visit and those inside it, without recursion."""
    stack = [visit]
    while stack:
        inner = next(stack[-1], None)
        if inner is None:
            stack.pop()
        else:
            stack.append(inner)


class Blocks:
    """The graph while it grows: the current block, and the frames around it."""

    def __init__(self, in_class: bool) -> None:
        self.in_class = in_class
        self.blocks = [Block(), Block()]
        """The first is the entry, the second the regular end."""
        self.now = 0
        self.clock = 0
        self.frame: Frame | None = None
        self.context = Context()
        self.places: dict[ast.AST, tuple[Place, ...]] = {}
        """Statements at their start, expressions at the end of their evaluation."""
        self.nested: dict[ast.AST, list[tuple[Place, Event]]] = {}
        """The scopes inside, and where they are made: in several places, in a `finally`."""
        self.roots: dict[str, str] = {}
        """Keys of plain names, and the names."""
        self.bound: set[str] = set()
        """Names that the scope binds."""

    def block(self) -> int:
        self.blocks.append(Block())
        return len(self.blocks) - 1

    def edge(self, to: int) -> None:
        self.blocks[self.now].after.append(to)

    def target(self, jump: Jump, frame: Frame | None) -> int | None:
        """The block that a jump out of `frame` goes to; None for an exception that leaves the scope."""
        while frame is not None:
            if frame.finally_ is not None:
                return self.through(frame, jump)
            if jump == "raise" and frame.catch is not None:
                return frame.catch
            if jump == "break" and frame.breaks is not None:
                return frame.breaks
            if jump == "continue" and frame.continues is not None:
                return frame.continues
            frame = frame.outer
        return None if jump == "raise" else 1

    def through(self, frame: Frame, jump: Jump) -> int:
        """The copy of a `finally` for one way of leaving: what is bound on one way is not mixed with another's."""
        entry, jumps = frame.copies.setdefault("any" if frame.shared else jump, (len(self.blocks), set()))
        if entry == len(self.blocks):
            self.block()
        jumps.add(jump)
        return entry

    def may_raise(self) -> None:
        if self.frame is not None and self.frame.catching and self.blocks[self.now].handler is None:
            self.blocks[self.now].handler = self.target("raise", self.frame)

    def place(self) -> Place:
        return Place(self.now, len(self.blocks[self.now].events), self.clock, self.context)

    def note(self, node: ast.AST) -> None:
        place = self.place()
        before = self.places.get(node)
        self.places[node] = (place,) if before is None else (*before, place)

    def key(self, name: str, names: Names | None) -> str:
        """What a name means: `x` of the scope, `x#2` of the second comprehension; `x@` skips the class around it."""
        around = names
        while around is not None:
            if name in around.keys:
                return around.keys[name]
            around = around.outer
        return name + "@" if self.in_class and names is not None else name

    def add(self, event: Event) -> None:
        self.blocks[self.now].events.append(event)
        if self.frame is not None and self.frame.catching:  # a handler sees what was bound before, or it too
            after = self.block()
            self.edge(after)
            self.now = after

    def emit(
        self,
        kind: Kind,
        node: ast.AST,
        target: ast.AST,
        root: str,
        rest: str = "",
        value: ast.expr | None = None,
        path: Path = (),
        item: str | None = None,
        exact: bool = False,
        weak: bool = False,
    ) -> None:
        """Binds a name, here and now."""
        if value is not None:
            value, path = narrow(value, path)
        self.clock += 1
        key = self.key(root, self.context.names)
        if key not in self.roots:
            self.roots[key] = root
        if not rest and kind not in _WEAK and key == root:
            self.bound.add(root)
        definition = Definition(root + rest, kind, node, target, value, path)
        self.add(Event(definition, key + rest, self.clock, not weak and kind not in _WEAK, item, exact))

    def make_scope(self, node: ast.AST) -> None:
        """A function, lambda or class is made here: its body is a scope of its own."""
        self.clock += 1
        event = Event(None, "", self.clock, strong=False)
        self.nested.setdefault(node, []).append((self.place(), event))
        self.add(event)
