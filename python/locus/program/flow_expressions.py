"""Expressions in the order in which they are evaluated: names that are read, and what is bound on the way.

Walrus, comprehensions, and calls that put something into a container bind; `and`, `or`, conditional expressions and
chains of comparisons branch. The methods of collections are known by name (flow_values.PUTS); other calls bind nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from locus.program.flow_blocks import Blocks, Context, Names, Visit
from locus.program.flow_values import Kind, Member, Path, Star, Step, container, dotted, put

Capture = tuple[ast.AST, str, Path]
"""What a pattern binds: the pattern, the name, and the part of the subject."""


class Expressions(Blocks):
    """A graph that expressions and targets can be added to."""

    def __init__(self, in_class: bool) -> None:
        super().__init__(in_class)
        self._consumed: set[ast.AST] = set()
        """Generator expressions that are the one argument of a call: they are taken to be used up by it."""
        self._count = 0

    def bind(self, kind: Kind, node: ast.AST, target: ast.expr, value: ast.expr | None, path: Path = ()) -> Visit:
        """Binds a target, or the targets in it, to a part of a value."""
        work: list[tuple[ast.expr, Path]] = [(target, path)]
        while work:
            one, path = work.pop()
            if isinstance(one, (ast.Tuple, ast.List)):
                self.may_raise()
                star = next((i for i, item in enumerate(one.elts) if isinstance(item, ast.Starred)), len(one.elts))
                for i in range(len(one.elts) - 1, -1, -1):
                    after = len(one.elts) - i
                    step = i if i < star else -after if i > star else Star(i, after - 1)
                    work.append((one.elts[i], (*path, step)))
            elif isinstance(one, ast.Starred):
                work.append((one.value, path))
            elif isinstance(one, ast.Name):
                self.emit(kind, node, one, one.id, "", value, path)
            elif isinstance(one, (ast.Attribute, ast.Subscript)):
                yield self.expression(one.value)
                if isinstance(one, ast.Subscript):
                    yield self.expression(one.slice)
                self.may_raise()
                self.store(kind, node, one, value, path)
            else:
                yield self.expression(one)

    def store(self, kind: Kind, node: ast.AST, target: ast.expr, value: ast.expr | None, path: Path) -> None:
        """Binds an attribute or an item of something that has a name."""
        plain = dotted(target)
        if plain is not None:
            self.emit(kind, node, target, *plain, value, path)
            return
        box = container(target)
        if box is not None and kind != "delete":
            self.emit("item", node, target, box.root, box.rest, value, path, box.key, box.exact)

    def expression(self, node: ast.AST) -> Visit:
        """Evaluates: the parts in their order, then the expression itself."""
        work: list[ast.AST | tuple[ast.AST]] = [node]
        while work:
            one = work.pop()
            if isinstance(one, tuple):
                self.finish(one[0])
            elif isinstance(one, ast.Name):
                key = self.key(one.id, self.context.names)
                self.roots.setdefault(key, one.id)
                self.finish(one)
            elif isinstance(one, ast.Constant):
                self.note(one)
            elif type(one) in _SPECIAL:
                yield _SPECIAL[type(one)](self, one)
                self.note(one)
            elif isinstance(one, ast.expr_context):
                pass
            else:
                work.append((one,))
                if isinstance(one, ast.Call) and len(one.args) == 1 and not one.keywords:
                    self._consumed.add(one.args[0])
                work.extend(reversed(list(ast.iter_child_nodes(one))))

    def finish(self, node: ast.AST) -> None:
        """An expression whose parts are there is evaluated."""
        self.note(node)
        self.may_raise()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for value, path in put(node):
                owner = node.func.value
                plain, box = dotted(owner), container(owner)
                if plain is not None:
                    self.emit("put", node, owner, *plain, value, path)
                elif box is not None:
                    self.emit("put", node, owner, box.root, box.rest, value, path, box.key)

    def condition(self, node: ast.expr, yes: int, no: int) -> Visit:
        """Evaluates a test: goes on in `yes` or in `no`."""
        if isinstance(node, ast.BoolOp):
            self.note(node)
            for value in node.values[:-1]:
                more = self.block()
                yield (
                    self.condition(value, more, no)
                    if isinstance(node.op, ast.And)
                    else self.condition(value, yes, more)
                )
                self.now = more
            yield self.condition(node.values[-1], yes, no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.note(node)
            yield self.condition(node.operand, no, yes)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            yield self.comparison(node, no)
            self.note(node)
            self.edge(yes)
            self.edge(no)
        else:
            yield self.expression(node)
            self.edge(yes)
            self.edge(no)

    def comparison(self, node: ast.Compare, otherwise: int) -> Visit:
        """`a < b < c`: `c` is evaluated only if the first comparison holds."""
        yield self.expression(node.left)
        for i, value in enumerate(node.comparators):
            if i:
                more = self.block()
                self.edge(otherwise)
                self.edge(more)
                self.now = more
            yield self.expression(value)
            self.may_raise()

    def _compare(self, node: ast.Compare) -> Visit:
        if len(node.ops) == 1:
            yield self.comparison(node, self.now)
            return
        end = self.block()
        yield self.comparison(node, end)
        self.edge(end)
        self.now = end

    def _boolean(self, node: ast.BoolOp) -> Visit:
        end = self.block()
        for value in node.values[:-1]:
            more = self.block()
            yield self.condition(value, more, end) if isinstance(node.op, ast.And) else self.condition(value, end, more)
            self.now = more
        yield self.expression(node.values[-1])
        self.edge(end)
        self.now = end

    def _conditional(self, node: ast.IfExp) -> Visit:
        yes, no, end = self.block(), self.block(), self.block()
        yield self.condition(node.test, yes, no)
        for start, value in ((yes, node.body), (no, node.orelse)):
            self.now = start
            yield self.expression(value)
            self.edge(end)
        self.now = end

    def _walrus(self, node: ast.NamedExpr) -> Visit:
        yield self.expression(node.value)
        self.emit("walrus", node, node.target, node.target.id, "", node.value)

    def _dict(self, node: ast.Dict) -> Visit:
        for key, value in zip(node.keys, node.values):
            if key is not None:
                yield self.expression(key)
            yield self.expression(value)
        self.may_raise()

    def _lambda(self, node: ast.Lambda) -> Visit:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                yield self.expression(default)
        self.make_scope(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Visit:
        outside = self.context
        yield self.expression(node.generators[0].iter)
        self._count += 1
        keys = {
            name.id: f"{name.id}#{self._count}"
            for each in node.generators
            for name in ast.walk(each.target)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        deferred = outside.deferred or (isinstance(node, ast.GeneratorExp) and node not in self._consumed)
        self.context = Context(Names(keys, outside.names), outside.loops, deferred)
        end = exit_ = self.block()
        for i, each in enumerate(node.generators):
            if i:
                yield self.expression(each.iter)
            head, body, latch = self.block(), self.block(), self.block()
            self.edge(head)
            self.now = head
            self.may_raise()
            self.edge(body)
            self.edge(exit_)
            self.blocks[latch].back = (head, exit_)
            self.now = body
            self.context = Context(self.context.names, (each, *self.context.loops), deferred)
            yield self.bind("comprehension", each, each.target, each.iter, (Step.ELEMENT,))
            for test in each.ifs:
                more = self.block()
                yield self.condition(test, more, latch)
                self.now = more
            exit_ = latch
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            yield self.expression(part)
        self.edge(exit_)
        self.now = end
        self.context = outside

    def pattern(self, pattern: ast.pattern, captures: list[Capture]) -> Visit:
        """Evaluates the values in a pattern; says what it captures. Nothing is bound before all of it has matched."""
        work: list[tuple[ast.AST, Path]] = [(pattern, ())]
        while work:
            one, path = work.pop()
            inner: list[tuple[ast.AST, Path]] = []
            self.note(one)
            if isinstance(one, (ast.MatchAs, ast.MatchStar)):
                if one.name is not None:
                    captures.append((one, one.name, path))
                if isinstance(one, ast.MatchAs) and one.pattern is not None:
                    inner = [(one.pattern, path)]
            elif isinstance(one, ast.MatchOr):
                inner = [(each, path) for each in one.patterns]
            elif isinstance(one, ast.MatchSequence):
                count = len(one.patterns)
                star = next((i for i, each in enumerate(one.patterns) if isinstance(each, ast.MatchStar)), count)
                for i, each in enumerate(one.patterns):
                    step = i if i < star else i - count if i > star else Star(i, count - i - 1)
                    inner.append((each, (*path, step)))
            elif isinstance(one, ast.MatchMapping):
                if one.rest is not None:
                    captures.append((one, one.rest, path))
                for key, each in zip(one.keys, one.patterns):
                    yield self.expression(key)
                    text = key.value if isinstance(key, ast.Constant) else None
                    inner.append((each, (*path, text if isinstance(text, (str, int)) else Step.VALUE)))
            elif isinstance(one, ast.MatchClass):
                yield self.expression(one.cls)
                inner += [(each, (*path, Member(None))) for each in one.patterns]
                inner += [(each, (*path, Member(name))) for name, each in zip(one.kwd_attrs, one.kwd_patterns)]
            elif isinstance(one, ast.MatchValue):
                yield self.expression(one.value)
            work.extend(reversed(inner))
        self.may_raise()


_SPECIAL: dict[type[ast.AST], Callable[..., Visit]] = {
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional,
    ast.NamedExpr: Expressions._walrus,
    ast.Dict: Expressions._dict,
    ast.Lambda: Expressions._lambda,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
}
