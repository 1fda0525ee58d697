"""The graphs of a scope and of every scope inside it, and what the inner ones bind outside of themselves."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import NamedTuple, cast

from locus.program.flow_blocks import Extra, Place
from locus.program.flow_graph import Graph
from locus.program.flow_values import Definition, Scope


class _Write(NamedTuple):
    """A definition that a scope makes of a name that is not its own."""

    definition: Definition
    root: str
    rest: str
    everywhere: bool
    """By `global`: of the module's name, whatever is around the scope."""
    by: ast.AST


class Scopes:
    """The graphs of a scope and of those inside it, and which is inside which."""

    def __init__(self, graphs: dict[ast.AST, Graph], outer: dict[ast.AST, ast.AST | None]):
        self.graphs = graphs
        self.outer = outer
        self._homes: dict[ast.AST, ast.AST] = {}

    def home(self, node: ast.AST) -> ast.AST | None:
        """The scope that a node is evaluated in; None for nodes that are not evaluated."""
        if not self._homes:
            self._homes = {one: scope for scope, graph in self.graphs.items() for one in graph.places}
        return self._homes.get(node)


def build(scope: Scope) -> Scopes:
    """The graphs of a scope and of those inside it; what the inner ones bind outside is in the outer ones."""
    graphs: dict[ast.AST, Graph] = {}
    order: list[tuple[ast.AST, ast.AST | None]] = [(scope, None)]
    for node, _ in order:  # it grows on the way
        graph = graphs[node] = Graph(cast(Scope, node))
        order.extend((inner, node) for inner in graph.nested)
    outward: dict[ast.AST, list[_Write]] = {}
    for node, outer in reversed(order):
        graph = graphs[node]
        writes = outward.pop(node, []) + _writes(graph)
        if outer is not None:
            outward.setdefault(outer, []).extend(_receive(graphs[outer], node, writes))
    for graph in graphs.values():
        if graph.stars:
            _import_stars(graph)
    return Scopes(graphs, dict(order))


def owns(graph: Graph, name: str, place: Place) -> bool:
    """Whether a name, used in a scope that is made at a place, is one of the scope around that."""
    if "#" in graph.key(name, place.context.names):
        return True
    return not graph.in_class and name in graph.bound - graph.globals - graph.nonlocals


def _writes(graph: Graph) -> list[_Write]:
    """What a scope itself binds outside of it: names by `global` and `nonlocal`; items and attributes of outer ones."""
    found = []
    for block in graph.blocks:
        for event in block.events:
            if event.definition is None:
                continue
            root, dot, rest = event.key.partition(".")
            name = graph.roots.get(root, root)
            declared = name in graph.globals or name in graph.nonlocals
            if "#" in root or (name in graph.bound and not declared) or name == "*":
                continue
            definition = event.definition
            if definition.kind not in ("item", "put"):
                definition = replace(definition, kind="free")
            found.append(_Write(definition, name, dot + rest, name in graph.globals, graph.scope))
    return found


def _receive(graph: Graph, inner: ast.AST, writes: list[_Write]) -> list[_Write]:
    """Gives a scope what one inside it binds; returns what is meant for scopes further out."""
    on = []
    made = graph.nested[inner]
    place = made[0][0]
    for write in writes:
        if isinstance(graph.scope, ast.Module) or (not write.everywhere and owns(graph, write.root, place)):
            key = write.root if write.everywhere else graph.key(write.root, place.context.names)
            graph.roots.setdefault(key, write.root)
            for _, event in made:
                event.extras.append(Extra(write.definition, key + write.rest, True, write.by))
        else:
            on.append(write._replace(everywhere=write.everywhere or write.root in graph.globals))
    return on


def _import_stars(graph: Graph) -> None:
    """`from m import *` may bind any name that is used in the scope or inside it."""
    names = sorted({node.id for node in ast.walk(graph.scope) if isinstance(node, ast.Name)})
    clocks = {clock for clock, _ in graph.stars}
    for name in names:
        graph.roots.setdefault(name, name)
    for block in graph.blocks:
        for event in block.events:
            star = event.definition
            if event.clock in clocks and star is not None:
                event.extras += [Extra(replace(star, name=name), name, False, graph.scope) for name in names]
