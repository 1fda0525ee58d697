"""Reaching definitions over the blocks of a graph: sets of bits, worked out once for a scope, on demand.

A fact is a pair of a key (`x`, `self.x`, `d['a']`) and a definition. Rebinding `self` overwrites the facts of `self.x`,
and stands for `self.x` from then on; a call overwrites nothing, whatever it may do to attributes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Literal, NamedTuple

from locus.program.flow_blocks import Block, Event, Place
from locus.program.flow_graph import Graph
from locus.program.flow_values import Definition

Mode = Literal["all", "calm", "forward"]
"""Which edges count: all of them; those without swallowed exceptions; those of the same iteration of each loop."""


class Effect(NamedTuple):
    """What an event does to one key."""

    at: int
    fact: int
    """The bit of the fact that it makes."""
    strong: bool
    """Whether it overwrites the others of the key."""


class Facts:
    """The facts of a scope and where they hold."""

    def __init__(self, graph: Graph):
        self._blocks = graph.blocks
        self.definitions: list[Definition | None] = []
        """Of each fact; None says that the name is not bound."""
        self.clocks: list[int] = []
        """When each fact was made, in the order of evaluation."""
        self._numbers: dict[tuple[str, Definition | None], int] = {}
        self._masks: dict[str, int] = {}
        self._sticky: dict[str, int] = {}
        self._under = _keys_under(graph)
        self._solved: dict[Mode, list[int | None]] = {}
        self._later: list[int] = []
        self._entry = self._enter(graph)
        self._effects = [self._number(block) for block in graph.blocks]
        self._made = [self._makes(effects) for effects in self._effects]
        self._keeps = [~self._overwrites(effects) for effects in self._effects]

    def knows(self, key: str) -> bool:
        """Whether anything is ever said of a key."""
        return key in self._masks

    def _fact(self, key: str, definition: Definition | None, clock: int) -> int:
        number = self._numbers.setdefault((key, definition), len(self.definitions))
        if number == len(self.definitions):
            self.definitions.append(definition)
            self.clocks.append(clock)
            self._masks[key] = self._masks.get(key, 0) | 1 << number
        return number

    def _enter(self, graph: Graph) -> int:
        """What holds where the scope is entered: a name is bound outside, or not bound yet."""
        entry = 0
        bound = graph.bound - graph.globals - graph.nonlocals
        for key, name in graph.roots.items():
            inner = "#" in key
            own = inner or (key == name and name in bound)
            if own:
                entry |= 1 << self._fact(key, None, 0)
            if not own or (graph.in_class and not inner):  # a class sees the names around it until it has its own
                free = Definition(name, "free", graph.scope, graph.scope)
                for one in (key, *self._under.get(key, ())):
                    entry |= 1 << self._fact(one, free, 0)
        return entry

    def _number(self, block: Block) -> dict[str, list[Effect]]:
        """What a block does, by key, in order."""
        effects: dict[str, list[Effect]] = {}
        for at, event in enumerate(block.events):
            for key, definition, strong, sticky in self._of(event):
                fact = 1 << self._fact(key, definition, event.clock)
                effects.setdefault(key, []).append(Effect(at, fact, strong))
                if sticky:
                    self._sticky[key] = self._sticky.get(key, 0) | fact
        return effects

    def _of(self, event: Event) -> Iterator[tuple[str, Definition, bool, bool]]:
        """The keys that an event is about: its own, and those that lead through it."""
        if event.definition is not None:
            yield event.key, event.definition, event.strong, False
            for key in self._under.get(event.key, ()):
                if event.strong:
                    yield key, event.definition, True, False
                elif key.startswith(event.key + "["):
                    same = key == f"{event.key}[{event.item!r}]"
                    if same or event.item is None:
                        yield key, event.definition, same and event.exact, False
        for extra in event.extras:
            for key in (extra.key, *self._under.get(extra.key, ())):
                yield key, extra.definition, False, extra.sticky

    def _makes(self, effects: dict[str, list[Effect]]) -> int:
        """The facts of a block that hold at its end."""
        made = 0
        for key, ones in effects.items():
            made |= self._at(key, ones, 0)
        return made

    def _overwrites(self, effects: dict[str, list[Effect]]) -> int:
        bits = 0
        for key, ones in effects.items():
            if any(effect.strong for effect in ones):
                bits |= self._masks[key] & ~self._sticky.get(key, 0)
        return bits

    def _at(self, key: str, effects: list[Effect], before: int) -> int:
        """The facts of a key after some effects."""
        found = 0
        sticky = self._sticky.get(key, 0)
        for effect in reversed(effects):
            found |= effect.fact
            if effect.strong:
                for earlier in effects:
                    found |= earlier.fact & sticky
                return found | before & sticky
        return found | before

    def _edges(self, mode: Mode) -> list[list[int]]:
        """The blocks that follow each block, other than where it raises."""
        edges = []
        for block in self._blocks:
            after = list(block.after)
            if block.back is not None:
                after.append(block.back[1 if mode == "forward" else 0])
            if block.swallowed is not None and mode != "calm":
                after.append(block.swallowed)
            edges.append(after)
        return edges

    def _solve(self, mode: Mode) -> list[int | None]:
        """The facts at the start of each block; None for one that is never reached."""
        if mode in self._solved:
            return self._solved[mode]
        edges = self._edges(mode)
        rank = _ranks([[*after, block.handler] for after, block in zip(edges, self._blocks)])
        before: list[int | None] = [None] * len(edges)
        before[0] = self._entry
        work = [(rank[0], 0)]
        waiting = {0}

        def reach(number: int, state: int) -> None:
            known = before[number]
            joined = state if known is None else known | state
            if joined != known:
                before[number] = joined
                if number not in waiting:
                    waiting.add(number)
                    heapq.heappush(work, (rank[number], number))

        while work:
            number = heapq.heappop(work)[1]
            waiting.discard(number)
            start = before[number] or 0
            handler = self._blocks[number].handler
            if handler is not None:
                reach(handler, start)
            end = self._made[number] | start & self._keeps[number]
            for after in edges[number]:
                reach(after, end)
        self._solved[mode] = before
        return before

    def at(self, key: str, place: Place, mode: Mode = "all") -> int:
        """The facts of a key at a place, as bits."""
        before = self._solve(mode)[place.block]
        if before is None:
            return 0
        effects = [one for one in self._effects[place.block].get(key, ()) if one.at < place.events]
        return self._at(key, effects, before & self._masks.get(key, 0))

    def reached(self, place: Place) -> bool:
        """Whether a place is ever come to."""
        return self._solve("all")[place.block] is not None

    def at_or_later(self, key: str, place: Place) -> int:
        """The facts of a key at a place, and those that are made anywhere after it: what a closure may see."""
        if not self._later:
            self._later = self._after()
        later = self._later[place.block] & self._masks.get(key, 0)
        for effect in self._effects[place.block].get(key, ()):
            if effect.at >= place.events:
                later |= effect.fact
        return later | self.at(key, place)

    def _after(self) -> list[int]:
        """The facts that are made in blocks that may come after each block."""
        edges = self._edges("all")
        around: list[list[int]] = [[] for _ in edges]
        anywhere = []
        for number, (after, block) in enumerate(zip(edges, self._blocks)):
            for one in (*after, *(() if block.handler is None else (block.handler,))):
                around[one].append(number)
            bits = 0
            for ones in self._effects[number].values():
                for effect in ones:
                    bits |= effect.fact
            anywhere.append(bits)
        later = [0] * len(edges)
        work = list(range(len(edges)))
        while work:
            number = work.pop()
            bits = later[number] | anywhere[number]
            for one in around[number]:
                if bits | later[one] != later[one]:
                    later[one] |= bits
                    work.append(one)
        return later

    def follows(self, place: Place, event_clock: int) -> bool:
        """Whether a place may be come to after an event."""
        start = next(
            (
                (number, at)
                for number, block in enumerate(self._blocks)
                for at, event in enumerate(block.events)
                if event.clock == event_clock
            ),
            None,
        )
        if start is None or (start[0] == place.block and start[1] < place.events):
            return True
        edges = self._edges("all")
        seen: set[int] = set()
        work = list(edges[start[0]])
        while work:
            number = work.pop()
            if number not in seen:
                seen.add(number)
                handler = self._blocks[number].handler
                work.extend(edges[number] if handler is None else (*edges[number], handler))
        return place.block in seen


def numbers(bits: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _keys_under(graph: Graph) -> dict[str, list[str]]:
    """For each key, the longer ones that lead through it and that something is said of."""
    longer: dict[str, None] = {}
    for block in graph.blocks:
        for event in block.events:
            for key in (event.key, *(extra.key for extra in event.extras)):
                if "." in key:
                    longer[key] = None
            if event.item is not None and event.exact:
                longer[f"{event.key}[{event.item!r}]"] = None
    under: dict[str, list[str]] = {}
    for key in longer:
        path, _, item = key.partition("[")
        shorter = [path] if item else []
        while "." in path:
            path = path.rpartition(".")[0]
            shorter.append(path)
        for one in shorter:
            under.setdefault(one, []).append(key)
    return under


def _ranks(edges: list[list[int | None]]) -> list[int]:
    """A number for each block, so that most come after those before them: reverse postorder."""
    rank = [0] * len(edges)
    seen = {0}
    stack = [(0, iter(edges[0]))]
    count = len(edges)
    while stack:
        number, rest = stack[-1]
        for one in rest:
            if one is not None and one not in seen:
                seen.add(one)
                stack.append((one, iter(edges[one])))
                break
        else:
            stack.pop()
            rank[number] = count
            count -= 1
    return rank
