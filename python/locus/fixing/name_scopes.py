"""Where names mean something: which function runs a piece of text, in which frame, and what is bound there."""

from __future__ import annotations

import ast
import types

from locus.program import source


def function_of(file: source.Source, node: ast.AST) -> ast.AST:
    """The function that runs a node, or the module: a default and a decorator are run by what is around theirs."""
    inside = node
    for around in file.ancestors(node):
        if isinstance(around, source.Function) and not isinstance(inside, ast.arguments):
            if inside not in getattr(around, "decorator_list", ()):
                return around
        inside = around
    return file.tree


def frame_of(file: source.Source, scope: ast.AST, frames: list[types.FrameType]) -> types.FrameType | None:
    """The frame that runs a function, or the module."""
    for frame in frames:
        code = frame.f_code
        if code.co_filename == file.file and file.function_at(code.co_firstlineno, code.co_name) is scope:
            return frame
    return None


def bound_before(file: source.Source, scope: ast.AST, name: str, node: ast.AST) -> bool:
    """Whether a function (or the module) binds a name before the statement of `node`."""
    arguments = getattr(scope, "args", None)
    if arguments is not None:
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        if any(argument is not None and argument.arg == name for argument in given):
            return True
    place = start(node)
    statement = file.statement(node)
    for inner in file.find(scope, ("store", name), ("import", name)):
        if start(inner) >= place or function_of(file, inner) is not scope:
            continue
        if any(hasattr(around, "generators") for around in file.ancestors(inner)):
            continue  # the variable of a comprehension is its own
        # The statement's own target is not bound yet when its value is computed; a loop's is.
        if file.statement(inner) is not statement or isinstance(statement, (ast.For, ast.With)):
            return True
    return False


def is_comprehended(file: source.Source, node: ast.AST, name: str) -> bool:
    """Whether a comprehension around a node binds a name."""
    around = [generator for a in file.ancestors(node) for generator in getattr(a, "generators", ())]
    bound = [n for generator in around for n in ast.walk(generator.target) if isinstance(n, ast.Name)]
    return any(n.id == name for n in bound)


def is_optional(scope: ast.AST, name: str) -> bool:
    """Whether a function has a parameter that need not be given, and whose default is no device or the host's."""
    given = getattr(scope, "args", None)
    if given is None:
        return False
    positional = [*given.posonlyargs, *given.args]
    defaults = dict(zip([a.arg for a in positional[len(positional) - len(given.defaults) :]], given.defaults))
    defaults |= {a.arg: value for a, value in zip(given.kwonlyargs, given.kw_defaults) if value is not None}
    default = defaults.get(name)
    if isinstance(default, ast.Call) and len(default.args) == 1:
        default = default.args[0]  # torch.device("cpu")
    return isinstance(default, ast.Constant) and default.value in (None, "cpu")


def start(node: ast.AST) -> tuple[int, int]:
    """Line and column."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
