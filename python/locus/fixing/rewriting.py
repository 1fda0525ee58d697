"""The pieces that edits are made of: a call appended, an argument added, and what of a line may be touched.

Works on trees and text; knows nothing of cases.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, TypeGuard

import torch

from locus.fixing.said_devices import move_to
from locus.program import histories, source, text_index, values
from locus.program.makers import FACTORIES, RANDOM, WITHOUT_DEVICE
from locus.program.shapes import Edit
from locus.program.source import Change
from locus.program.text_index import span

if TYPE_CHECKING:
    from locus.program.bindings import Move, OwnMove

GATHERING = {"sum", "stack", "cat", "concat", "hstack", "vstack", "max", "min"}
"""Functions that put the results of one expression together."""


def append_call(file: source.Source, node: ast.AST, text: str) -> Edit | None:
    """`expr` -> `expr.to(…)`, in parentheses where they are needed."""
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return None
    if text.startswith(".to("):
        text = move_to(file, text[len(".to(") : -1])
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return append_call(file, node.elt, text)  # a list has no .to(): its elements do
    if isinstance(node, ast.DictComp):
        return append_call(file, node.value, text)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
        return None
    if text == f".to({ast.unparse(node)}.device)":
        return None  # where it is already: nothing would change
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and text.startswith((".to(", ".cuda(")):
        made = next((k for k in node.keywords if k.arg == "device"), None) if text.startswith(".to(") else None
        if made is not None and node.func.attr in FACTORIES and node.func.attr not in RANDOM:
            return file.edit([Change.replace(made.value, text[len(".to(") : -1])])
        moved = histories.names_device(node) and not node.keywords
        if moved and len(node.args) <= 1 and text == f".to({ast.unparse(node.func.value)}.device)":
            return replace_method(file, node, "")  # moved away from where it should be: `x.cpu()` -> `x`
        first_card = text.startswith((".cuda()", '.to("cuda")', '.to("cuda:0")', '.to("cuda" if ', '.to("cuda:0" if '))
        if moved and node.func.attr == "cuda" and not node.args and first_card:
            return None
        # Moved already, to the wrong device: another one in its place.
        if moved and len(node.args) == 1 and node.func.attr == "to" and text.startswith(".to("):
            return file.edit([Change.replace(node.args[0], text[len(".to(") : -1])])
        if moved and len(node.args) <= 1 and node.func.attr in ("cuda", "cpu", "to"):
            return replace_method(file, node, text)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) or file.is_parenthesized(node):
        if file.is_parenthesized(node) and not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            return file.edit([file.after_parenthesis(node, text)])
        return file.edit([Change.after(node, text)])
    return file.edit([Change.before(node, "("), Change.after(node, f"){text}")])


def replace_method(file: source.Source, call: ast.Call, text: str) -> Edit | None:
    """`x.cpu()` -> `x` and a text, for the call of a method."""
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    if held is None:
        return None
    start = file.after_parenthesis(held, "")
    return file.edit([Change(start.line, start.column, *span(call)[2:], text)])


def same_move(file: source.Source, move: Move) -> str:
    """`.to(device, non_blocking=True)` of a move, for another tensor: without the type that it may give as well."""
    given = [file.flat(argument) for argument in move.args[:1]]
    given += [f"{k.arg}={file.flat(k.value)}" for k in move.keywords if k.arg in ("device", "non_blocking")]
    return f".{move.func.attr}({', '.join(given)})"


def add_argument(file: source.Source, call: ast.Call, text: str) -> Edit | None:
    """One more keyword argument, before the closing parenthesis."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if len(call.args) == 1 and isinstance(call.args[0], ast.GeneratorExp) and not call.keywords:
        return None
    if not given:
        _, _, line, column = span(call)
        return file.edit([Change(line, column - 1, line, column - 1, text)])
    return file.edit([file.after_parenthesis(max(given, key=_ends), f", {text}")])


def without_argument(file: source.Source, call: ast.Call, name: str) -> Edit | None:
    """The call without one of its keyword arguments, where it stands behind another one."""
    given = next((keyword for keyword in call.keywords if keyword.arg == name), None)
    before = [
        n for n in [*call.args, *(k.value for k in call.keywords)] if given is not None and _ends(n) < _ends(given)
    ]
    if given is None or not before:
        return None
    start = file.after_parenthesis(max(before, key=_ends), "")
    end = file.after_parenthesis(given.value, "")
    return file.edit([Change(start.line, start.column, end.line, end.column, "")])


def _ends(node: ast.AST) -> tuple[int, int]:
    return span(node)[2:]


def is_drawn_on(call: ast.Call, device: str, users: list[types.FrameType]) -> bool:
    """Whether a call is given a generator of that device: it can draw there only."""
    given = next((k.value for k in call.keywords if k.arg == "generator"), None)
    found = [values.evaluate(given, frame) for frame in users] if given is not None else []
    devices = [str(value.device) for value in found if isinstance(value, torch.Generator)]
    return any(name == device or (name == "cuda" and device.startswith("cuda:")) for name in devices)


def device_argument(file: source.Source, call: ast.Call, words: str, drawn_there: bool = False) -> Edit | None:
    """The call with device=…, whether or not it had one. `drawn_there`: its generator is of that device."""
    name = histories.called_name(call)
    given = next((k for k in call.keywords if k.arg == "device"), None)
    if given is not None:
        return file.edit([Change.replace(given.value, words)])
    if name == "Generator" and call.args:
        return file.edit([Change.replace(call.args[0], words)])
    # A leaf must be made where it is: what .to() gives has no gradient of its own.
    stays = drawn_there or any(keyword.arg == "requires_grad" for keyword in call.keywords)
    drawn_here = name in RANDOM and (stays or _is_like(call, words) or _draws_on_devices(file, call))
    if name in WITHOUT_DEVICE or (name in RANDOM and not drawn_here):
        return append_call(file, call, f".to({words})")
    if move_to(file, words) == ".cuda()" and not stays:
        return append_call(file, call, ".cuda()")
    return add_argument(file, call, f"device={words}") if name in FACTORIES else None


def _is_like(call: ast.Call, words: str) -> bool:
    """`torch.randn(mu.shape)` beside `mu`, which is on the device: noise for that tensor, drawn where it is."""
    named = [node for each in call.args for node in ast.walk(each) if isinstance(node, (ast.Name, ast.Attribute))]
    is_given = any(keyword.arg == "generator" for keyword in call.keywords)
    return not is_given and words.endswith(".device") and any(ast.unparse(n) == words[: -len(".device")] for n in named)


def without_cuda(file: source.Source, line: int) -> Edit | None:
    """The line without what puts tensors on a CUDA device: `x.to("cuda")` -> `x`, `x.cuda()` -> `x`."""
    changes = []
    for node in file.calls(file.tree, "to", "cuda"):
        place = span(node)
        if place.line <= line <= place.end_line and isinstance(node.func, ast.Attribute) and len(node.args) <= 1:
            changes.append(Change(*_ends(node.func.value), place.end_line, place.end_column, ""))
    return file.edit(changes) if len(changes) == 1 and changes[0].line == changes[0].end_line == line else None


def _draws_on_devices(file: source.Source, call: ast.Call) -> bool:
    """Whether a program draws its random numbers on devices, rather than on the CPU and then moves them. Where nothing
    else is drawn, what else is made in the same statement says it.
    """
    drawn, moved = file.once(_random_calls)
    if drawn == moved == 0:
        around = file.statement(call) or call
        beside = [node for node in ast.walk(around) if isinstance(node, ast.Call) and node is not call]
        named = [node for node in beside if histories.called_name(node) in FACTORIES]
        return any(keyword.arg == "device" for node in named for keyword in node.keywords)
    return drawn > moved


def _random_calls(file: source.Source) -> tuple[int, int]:
    """How many random numbers a file draws on a device, and how many on the CPU to move them."""
    calls = file.calls(file.tree, *RANDOM)
    drawn = sum(any(keyword.arg == "device" for keyword in node.keywords) for node in calls)
    moved = [n.func.value for n in file.calls(file.tree, "to", "cuda") if isinstance(n.func, ast.Attribute)]
    return drawn, sum(isinstance(node, ast.Call) and histories.called_name(node) in RANDOM for node in moved)


def wrap(file: source.Source, value: ast.AST, name: str) -> list[Change] | None:
    """`[…]` -> `nn.ModuleList([…])`, `tuple(…)` -> `nn.ModuleList(…)`; None where it can't be written so."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        if len(value.args) == 1 and value.func.id in ("list", "tuple", "dict") and not value.keywords:
            return [Change.replace(value.func, name)]
    if isinstance(value, ast.Tuple) and not file.segment(value).startswith("("):
        return None
    return [Change.before(value, f"{name}("), Change.after(value, ")")]


def items_of(value: object) -> list[object]:
    """What is in a plain container."""
    return list(value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ())


def container_class(value: object) -> str:
    """ModuleList, ModuleDict, ParameterList or ParameterDict, by what is in the container; "" for other things."""
    items = items_of(value)
    suffix = "Dict" if isinstance(value, dict) else "List"
    if not items or (isinstance(value, dict) and not all(isinstance(key, str) for key in value)):
        return ""
    # A container of containers of modules holds modules, once the inner ones are made modules too.
    if all(isinstance(item, torch.nn.Module) or container_class(item) for item in items):
        return f"Module{suffix}"
    return f"Parameter{suffix}" if all(isinstance(item, torch.nn.Parameter) for item in items) else ""


def nn_name(file: source.Source) -> str:
    """How the file says torch.nn."""
    return file.once(_nn_name)


def _nn_name(file: source.Source) -> str:
    for node in file.find(file.tree, ("import", "")):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch.nn" and alias.asname:
                    return alias.asname
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            for alias in node.names:
                if alias.name == "nn":
                    return alias.asname or "nn"
    return "torch.nn"


def values_of(file: source.Source, scope: ast.AST, text: str) -> list[ast.expr]:
    """What is assigned to a target inside a scope; of `a, b = f(), g()` the part that is its own."""
    found: list[ast.expr] = []
    for node in file.find(scope, ("assign", text)):
        if isinstance(node, ast.AnnAssign):
            found += [node.value] if node.value is not None else []
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            parts = [(target, value)]
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
                parts = list(zip(target.elts, value.elts)) if len(target.elts) == len(value.elts) else parts
            found += [value for part, value in parts if text_index.text_of(part) == text]
    return found


def moves_itself(statement: ast.stmt | None) -> TypeGuard[OwnMove]:
    """`x = x.to(device)`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    method = statement.value.func if isinstance(statement.value, ast.Call) else None
    if not isinstance(method, ast.Attribute) or method.attr not in ("to", "cuda"):
        return False
    return ast.unparse(method.value) == ast.unparse(statement.targets[0])


def statements_after(file: source.Source, statement: ast.stmt) -> list[ast.stmt]:
    """The statements that follow one in its block."""
    block = file.block(statement)
    return block[block.index(statement) + 1 :] if block else []


def indent_of(file: source.Source, statement: ast.stmt) -> str:
    """The white space that a statement begins with."""
    line = file.line(statement.lineno)
    return line[: len(line) - len(line.lstrip())]


def starts_line(file: source.Source, statement: ast.stmt) -> bool:
    """Whether nothing stands before a statement on its line."""
    return not file.line(statement.lineno).encode("utf-8")[: statement.col_offset].strip()


def has_lines(file: source.Source, statement: ast.stmt) -> bool:
    """Whether a statement has its lines for itself, so that another one can follow it."""
    return starts_line(file, statement) and ends_line(file, statement)


def ends_line(file: source.Source, statement: ast.stmt) -> bool:
    """Whether nothing but a comment stands after a statement on its line."""
    line, column = _ends(statement)
    rest = file.line(line).encode("utf-8")[column:].decode("utf-8").strip()
    return not rest or rest.startswith("#")
