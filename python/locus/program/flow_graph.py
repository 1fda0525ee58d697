"""The control flow graph of one scope: statements, jumps, exceptions.

Any statement and any evaluation inside a `try` may raise, before it binds. An exception may be swallowed by any context
manager, on an edge that can be told from others. An assertion is taken to be checked. A loop ends where its test says
so, `while True` (any true constant) only by a jump; no other constant is special.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from locus.program.flow_blocks import Context, Frame, Jump, Names, Visit, run
from locus.program.flow_expressions import Capture, Expressions
from locus.program.flow_values import Scope, Step

_COPIES = 2  # of a `finally` inside a `finally`; deeper ones have one copy for all ways of leaving

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Graph(Expressions):
    """The blocks of a scope, every place in it, the scopes inside it."""

    def __init__(self, scope: Scope):
        super().__init__(isinstance(scope, ast.ClassDef))
        self.scope = scope
        self.ends: dict[ast.AST, list[tuple[int, int]]] = {}
        """Blocks, and the number of events in them, where a statement has ended regularly."""
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.stars: list[tuple[int, ast.ImportFrom]] = []
        """Events that import `*`: their clocks, and the statements."""
        self._copying = 0
        run(self._scope(scope))
        self.edge(1)

    def _scope(self, scope: Scope) -> Visit:
        for one in getattr(scope, "type_params", ()):
            self.emit("parameter", one, one, one.name)
        if isinstance(scope, (*Function, ast.Lambda)):
            args = scope.args
            for arg in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
                if arg is not None:
                    self.emit("parameter", arg, arg, arg.arg)
        if isinstance(scope, ast.Lambda):
            yield self.expression(scope.body)
        else:
            yield self.statements(scope.body)

    def statements(self, body: Sequence[ast.stmt]) -> Visit:
        for node in body:
            self.note(node)
            self.may_raise()
            visit = _STATEMENTS.get(type(node))
            if visit is not None:
                yield visit(self, node)
            else:
                for part in ast.iter_child_nodes(node):
                    yield self.expression(part)
            self.ends.setdefault(node, []).append((self.now, len(self.blocks[self.now].events)))

    def jump(self, jump: Jump) -> None:
        to = self.target(jump, self.frame)
        if to is not None:
            self.edge(to)
        self.now = self.block()

    def _leave(self, frame: Frame, end: int) -> Visit:
        """Goes through a frame's `finally`, once for every way it is left; regularly, to `end`."""
        self.edge(self.through(frame, "normal"))
        self.frame = frame.outer
        assert frame.finally_ is not None
        self._copying += 1
        for start, jumps in list(frame.copies.values()):
            self.now = start
            yield frame.finally_()
            for jump in sorted(jumps):
                to = end if jump == "normal" else self.target(jump, frame.outer)
                if to is not None:
                    self.edge(to)
        self._copying -= 1
        self.now = end

    def _return(self, node: ast.Return) -> Visit:
        if node.value is not None:
            yield self.expression(node.value)
        self.jump("return")

    def _raise(self, node: ast.Raise) -> Visit:
        for part in (node.exc, node.cause):
            if part is not None:
                yield self.expression(part)
        self.jump("raise")

    def _assert(self, node: ast.Assert) -> Visit:
        passed, failed = self.block(), self.block()
        yield self.condition(node.test, passed, failed)
        self.now = failed
        if node.msg is not None:
            yield self.expression(node.msg)
        self.jump("raise")
        self.now = passed

    def _break(self, node: ast.Break) -> Visit:
        self.jump("break")
        yield from ()

    def _continue(self, node: ast.Continue) -> Visit:
        self.jump("continue")
        yield from ()

    def _declare(self, node: ast.Global | ast.Nonlocal) -> Visit:
        (self.globals if isinstance(node, ast.Global) else self.nonlocals).update(node.names)
        yield from ()

    def _delete(self, node: ast.Delete) -> Visit:
        for target in node.targets:
            yield self.bind("delete", node, target, None)

    def _assign(self, node: ast.Assign) -> Visit:
        yield self.expression(node.value)
        for target in node.targets:
            yield self.bind("assign", node, target, node.value)

    def _augmented(self, node: ast.AugAssign) -> Visit:
        yield self.expression(node.target)  # it is read first
        yield self.expression(node.value)
        self.may_raise()
        self.store("augmented", node, node.target, node.value, ())

    def _annotated(self, node: ast.AnnAssign) -> Visit:
        if node.value is not None:
            yield self.expression(node.value)
            yield self.bind("annotated", node, node.target, node.value)
        elif isinstance(node.target, ast.Name):
            if node.simple:
                self.bound.add(node.target.id)
                self.roots.setdefault(node.target.id, node.target.id)
        else:
            yield self.expression(node.target)
        yield self.expression(node.annotation)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Visit:
        for alias in node.names:
            self.may_raise()
            if alias.name == "*" and isinstance(node, ast.ImportFrom):
                self.stars.append((self.clock + 1, node))
                self.emit("import", node, alias, "*")
                self.roots.pop("*", None)
                self.bound.discard("*")
            else:
                name = alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name
                self.emit("import", node, alias, alias.asname or name)
        yield from ()

    def _type_alias(self, node: ast.stmt) -> Visit:
        name, value = getattr(node, "name", None), getattr(node, "value", None)
        if isinstance(name, ast.Name) and isinstance(value, ast.expr):
            outside = self.context
            yield self._type_params(node)
            self.context = Context(self.context.names, self.context.loops, deferred=True)  # evaluated when asked for
            yield self.expression(value)
            self.context = outside
            self.emit("assign", node, name, name.id, "", value)

    def _type_params(self, node: ast.AST) -> Visit:
        """Names of the head of a generic function, class or alias; the caller ends them."""
        params: Sequence[ast.AST] = getattr(node, "type_params", ())
        names = [str(getattr(one, "name", "")) for one in params]
        if names:
            keys = {name: f"{name}#{self.clock}" for name in names}
            self.context = Context(Names(keys, self.context.names), self.context.loops, self.context.deferred)
        for name, one in zip(names, params):
            self.emit("parameter", one, one, name)
            for part in ast.iter_child_nodes(one):
                yield self.expression(part)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Visit:
        args, outside = node.args, self.context
        for part in (*node.decorator_list, *args.defaults, *args.kw_defaults):
            if part is not None:
                yield self.expression(part)
        yield self._type_params(node)
        for arg in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if arg is not None and arg.annotation is not None:
                yield self.expression(arg.annotation)
        if node.returns is not None:
            yield self.expression(node.returns)
        self.context = outside
        self.make_scope(node)
        self.emit("function", node, node, node.name)

    def _class(self, node: ast.ClassDef) -> Visit:
        outside = self.context
        for part in node.decorator_list:
            yield self.expression(part)
        yield self._type_params(node)
        for base in (*node.bases, *node.keywords):
            yield self.expression(base)
        self.context = outside
        self.make_scope(node)
        self.emit("class", node, node, node.name)

    def _if(self, node: ast.If) -> Visit:
        yes, no, end = self.block(), self.block(), self.block()
        yield self.condition(node.test, yes, no)
        for start, body in ((yes, node.body), (no, node.orelse)):
            self.now = start
            yield self.statements(body)
            self.edge(end)
        self.now = end

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> Visit:
        outside = self.context
        if not isinstance(node, ast.While):
            yield self.expression(node.iter)
        head, body, latch, done, end = (self.block() for _ in range(5))
        self.edge(head)
        self.now = head
        self.blocks[latch].back = (head, done)
        self.context = Context(outside.names, (node, *outside.loops), outside.deferred)
        if not isinstance(node, ast.While):
            self.may_raise()
            self.edge(body)
            self.edge(done)
            self.now = body
            yield self.bind("loop", node, node.target, node.iter, (Step.ELEMENT,))
        elif isinstance(node.test, ast.Constant) and node.test.value:
            yield self.expression(node.test)
            self.edge(body)
            self.now = body
        else:
            yield self.condition(node.test, body, done)
            self.now = body
        self.frame = Frame(self.frame, breaks=end, continues=latch)
        yield self.statements(node.body)
        self.frame = self.frame.outer
        self.context = outside
        self.edge(latch)
        self.now = done
        yield self.statements(node.orelse)
        self.edge(end)
        self.now = end

    def _with(self, node: ast.With | ast.AsyncWith) -> Visit:
        outer, end = self.frame, self.block()
        for item in node.items:
            yield self.expression(item.context_expr)
            self.may_raise()
            swallowed = self.block()
            self.blocks[swallowed].swallowed = end
            on = self.target("raise", self.frame)
            if on is not None:
                self.blocks[swallowed].after.append(on)
            self.frame = Frame(self.frame, catch=swallowed)
            inside = self.block()
            self.edge(inside)
            self.now = inside
            if item.optional_vars is not None:
                yield self.bind("with", node, item.optional_vars, item.context_expr)
        yield self.statements(node.body)
        self.frame = outer
        self.edge(end)
        self.now = end

    def _try(self, node: ast.Try) -> Visit:
        final: Frame | None = None
        if node.finalbody:
            final = Frame(self.frame, finally_=lambda: self.statements(node.finalbody), shared=self._copying >= _COPIES)
            self.frame = final
        around, end = self.frame, self.block()
        caught = self.block()
        if node.handlers:
            self.frame = Frame(around, catch=caught)
        start = self.block()
        self.edge(start)
        self.now = start
        yield self.statements(node.body)
        self.frame = around
        rest = self.block()
        self.edge(rest)
        self.now = rest
        yield self.statements(node.orelse)
        self.edge(end)
        for handler in node.handlers:
            self.now = caught
            self.note(handler)
            body, caught = self.block(), self.block()
            if handler.type is not None:
                yield self.expression(handler.type)
                self.edge(caught)
            self.edge(body)
            self.now = body
            yield self._handler(handler)
            self.edge(end)
        self.now = caught
        on = self.target("raise", around) if node.handlers else None
        if on is not None:
            self.edge(on)
        self.now = end
        if final is not None:
            yield self._leave(final, self.block())

    def _handler(self, node: ast.ExceptHandler) -> Visit:
        """The body of `except … as name`: however it ends, the name is deleted."""
        if node.name is None:
            yield self.statements(node.body)
            return
        name, end = node.name, self.block()
        self.emit("except", node, node, name, "", node.type)

        def delete() -> Visit:
            self.emit("delete", node, node, name)
            yield from ()

        frame = Frame(self.frame, finally_=delete)
        self.frame = frame
        body = self.block()
        self.edge(body)
        self.now = body
        yield self.statements(node.body)
        yield self._leave(frame, end)

    def _match(self, node: ast.Match) -> Visit:
        yield self.expression(node.subject)
        end = self.block()
        for case in node.cases:
            self.note(case)
            pattern = case.pattern
            irrefutable = isinstance(pattern, ast.MatchAs) and pattern.pattern is None
            matched, body, other = self.block(), self.block(), self.block()
            captures: list[Capture] = []
            yield self.pattern(pattern, captures)
            if not irrefutable:
                self.edge(other)
            self.edge(matched)
            self.now = matched
            names: set[str] = set()
            for target, name, path in captures:  # a name is bound twice by alternatives: by any of them
                self.emit("match", case, target, name, "", node.subject, path, weak=name in names)
                names.add(name)
            if case.guard is not None:
                yield self.condition(case.guard, body, other)
            else:
                self.edge(body)
            self.now = body
            yield self.statements(case.body)
            self.edge(end)
            self.now = other
        self.edge(end)
        self.now = end


_STATEMENTS: dict[type[ast.AST], Callable[..., Visit]] = {
    ast.Return: Graph._return,
    ast.Raise: Graph._raise,
    ast.Assert: Graph._assert,
    ast.Break: Graph._break,
    ast.Continue: Graph._continue,
    ast.Global: Graph._declare,
    ast.Nonlocal: Graph._declare,
    ast.Delete: Graph._delete,
    ast.Assign: Graph._assign,
    ast.AugAssign: Graph._augmented,
    ast.AnnAssign: Graph._annotated,
    ast.Import: Graph._import,
    ast.ImportFrom: Graph._import,
    ast.FunctionDef: Graph._function,
    ast.AsyncFunctionDef: Graph._function,
    ast.ClassDef: Graph._class,
    ast.If: Graph._if,
    ast.For: Graph._loop,
    ast.AsyncFor: Graph._loop,
    ast.While: Graph._loop,
    ast.With: Graph._with,
    ast.AsyncWith: Graph._with,
    ast.Try: Graph._try,
    ast.Match: Graph._match,
}
_later: dict[str, Callable[..., Visit]] = {"TryStar": Graph._try, "TypeAlias": Graph._type_alias}  # 3.11, 3.12
_STATEMENTS.update((getattr(ast, name), visit) for name, visit in _later.items() if hasattr(ast, name))
