"""Which source expression each operand of a call is: `self.cache` in `x + self.cache`.

Says nothing where it would be a guess: an expression is either the value itself, or the only one in its place.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING, TypeGuard

from locus.program import histories, places, source, values

if TYPE_CHECKING:
    import torch

    from locus.program.raw_shapes import RawOperand
    from locus.program.text_index import Placed


# The operators that an expression may turn into, with its two sides in this order.
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div true_divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul mm mv bmm dot", ast.BitAnd: "bitwise_and and iand",
    ast.BitOr: "bitwise_or or ior", ast.BitXor: "bitwise_xor xor ixor", ast.LShift: "lshift ilshift bitwise_left_shift",
    ast.RShift: "rshift irshift bitwise_right_shift",
}  # fmt: skip


_COMPUTING = {
    "abs", "clamp", "clone", "cos", "cumprod", "cumsum", "detach", "exp", "flatten", "flip", "log", "logical_not",
    "mean", "normalize", "one_hot", "relu", "reshape", "sigmoid", "sin", "softmax", "sqrt", "squeeze", "sum", "t",
    "tanh", "transpose", "tril", "triu", "unsqueeze",
}  # fmt: skip


class Use:
    """The line where a call happens: its file, its node, and the frame that is on it."""

    def __init__(self, frame: types.FrameType, inner: types.FrameType | None):
        self.frame, self.inner = frame, inner
        self.node: Placed | None = None
        self.statement: ast.stmt | None = None
        source.vouch(frame.f_code, frame.f_globals)
        self.file = source.load(frame.f_code.co_filename)
        if self.file is None:
            return
        line, end_line, column, end_column = places.positions(frame.f_code, frame.f_lasti)
        self.node = self.file.at(line, end_line, column, end_column)
        if self.node is not None:
            self.statement = self.file.statement(self.node)
        else:
            around = self.file.statements_at(line or frame.f_lineno or 0)
            self.statement = around[-1] if around else None
            if hasattr(self.statement, "body"):
                self.statement = None  # its text is more than the line


def operand_nodes(use: Use, operands: list[RawOperand], op: str) -> list[ast.expr | None]:
    """For each operand (as the bridge gave it) the node of its expression, or None."""
    found: list[ast.expr | None] = [None] * len(operands)
    if use.file is None or (use.node is None and use.statement is None):
        return found
    candidates = parts(use.node) if use.node is not None else []
    for number, operand in enumerate(operands):
        found[number] = _same_value(candidates, operand.get("tensor"), use.frame)
    if use.inner is not None and isinstance(use.node, ast.Call):
        for number, operand in enumerate(operands):
            if found[number] is None:
                found[number] = _through_callee(use.node, use.inner, operand.get("tensor"))
    elif use.node is not None and use.inner is None:
        for number, operand in enumerate(operands):
            if found[number] is None:
                node = by_place(use.node, operand, op)
                if node is not None and node not in found and _could_be(node, operand.get("tensor"), use.frame):
                    found[number] = node
    if op == "numpy" and found == [None] and isinstance(use.node, ast.Call) and use.node.args:
        asks = histories.called_name(use.node) in ("asarray", "array", "ascontiguousarray", "asanyarray")
        found[0] = use.node.args[0] if asks else None
    if op == "grad" and found and found[0] is None and isinstance(use.statement, ast.Assign):
        found[0] = use.statement.value  # p.grad = …
    if use.statement is not None and any(node is None for node in found):
        named = [n for n in ast.walk(use.statement) if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
        simple: list[ast.expr] = [n for n in named if isinstance(n.ctx, ast.Load)]
        for number, operand in enumerate(operands):
            if found[number] is None:
                found[number] = _same_value(simple, operand.get("tensor"), use.frame, exact=True)
    return found


def source_of(use: Use, frames: list[types.FrameType], device: str) -> tuple[ast.expr | None, torch.Tensor | None]:
    """(expression, tensor) that a nameless intermediate result came from: the only tensor on its device that the
    library function was given; (None, None) where there are several.
    """
    nodes = [(part, values.evaluate(part, use.frame)) for part in (parts(use.node) if use.node else [])]
    passed = {values.storage_key(value): (part, value) for part, value in reversed(nodes) if _is_on(value, device)}
    if len(passed) == 1 and 0 not in passed:
        return next(iter(passed.values()))  # the program's call was given one such tensor
    given: dict[int, torch.Tensor] = {}
    for frame in frames:
        if frame is use.frame:
            break
        for value in values.at_rest(frame.f_locals).values():
            for item in value if type(value) in (list, tuple) else [value]:
                if _is_on(item, device):
                    given[id(item)] = item
    for _, value in nodes:
        if _is_on(value, device):
            given[id(value)] = value
    if len(given) != 1:
        return None, None
    (tensor,) = given.values()
    return next((node for node, value in nodes if value is tensor), None), tensor


def root_of(use: Use, steps: list[histories.Step]) -> tuple[ast.expr, torch.Tensor] | None:
    """(expression, tensor) of the program's call that a result inside the library came from: the only tensor in its
    arguments that is where the result is and was made by the same line.
    """
    call = use.node
    if not isinstance(call, ast.Call):
        return None
    made = _made_at(steps)
    found: dict[int, tuple[ast.expr, torch.Tensor]] = {}
    for part in [part for a in [*call.args, *(k.value for k in call.keywords)] for part in ast.walk(a)]:
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
            value = values.evaluate(part, use.frame)
            if _is_on(value, steps[-1].facts["device"]) and _made_at(histories.history(value)) == made:
                found.setdefault(values.storage_key(value), (part, value))
    return next(iter(found.values())) if len(found) == 1 else None


def _made_at(steps: list[histories.Step]) -> tuple[str, int, int] | None:
    at = steps[0].facts["at"] if steps else None
    return (at["file"], at["line"], at["column"]) if at is not None and at["line"] else None


def _is_on(value: object, device: str) -> TypeGuard[torch.Tensor]:
    return values.is_tensor(value) and str(value.device) == device


def leaves(node: ast.expr | None, frame: types.FrameType, device: str) -> list[tuple[ast.expr, torch.Tensor]]:
    """The tensors on `device` that stand in an expression of plain arithmetic, where there are several: `a` and `b` of
    2 * a * (1 - b[t]). Each of them is elsewhere than it should be; numbers and 0-dim tensors may be anywhere.
    """
    found: dict[int, tuple[ast.expr, torch.Tensor]] = {}
    stack: list[ast.expr] = [node] if isinstance(node, ast.BinOp) else []
    while stack:  # as in stem(): a function that calls itself would keep the frame
        part = stack.pop()
        if isinstance(part, (ast.BinOp, ast.UnaryOp)):
            stack += [part.right, part.left] if isinstance(part, ast.BinOp) else [part.operand]
            continue
        while isinstance(part, ast.Subscript) and not values.is_tensor(values.evaluate(part, frame)):
            part = part.value
        method = part.func if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else None
        if method is not None and values.is_tensor(values.evaluate(method.value, frame)):
            part = method.value  # `v` of `v.sqrt()`
        value = values.evaluate(part, frame)
        if _is_on(value, device) and value.dim() > 0:
            found.setdefault(values.storage_key(value), (part, value))
    return list(found.values()) if len(found) > 1 and 0 not in found else []


def meets(use: Use, device: str) -> bool:
    """Whether a result goes into plain arithmetic with a tensor on `device`: `x - table[index]`."""
    whole: ast.AST | None = use.node
    for around in use.file.ancestors(whole) if use.file is not None and whole is not None else ():
        if not isinstance(around, (ast.BinOp, ast.UnaryOp)):
            break
        whole = around
    stack, others = [whole], []
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.BinOp, ast.UnaryOp)):
            stack += [part.left, part.right] if isinstance(part, ast.BinOp) else [part.operand]
        elif part is not use.node:
            others.append(values.evaluate(part, use.frame))
    return any(_is_on(value, device) and value.dim() > 0 for value in others)


def stem(node: ast.expr, frame: types.FrameType, device: str) -> torch.Tensor | None:
    """The one tensor on `device` that an expression is computed from, or None: `self.queue` of self.queue.clone()."""
    found: dict[int, torch.Tensor] = {}
    stack = [node]
    while stack:  # no function that calls itself: such a ring would keep the frame until the next collection
        part = stack.pop()
        value = values.evaluate(part, frame)
        if values.is_tensor(value):
            if str(value.device) == device:
                found[id(value)] = value
        elif isinstance(part, (ast.BinOp, ast.Compare, ast.UnaryOp)):
            stack += parts(part)
        elif isinstance(part, ast.Subscript):
            stack.append(part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            # A method's result is computed from its object, torch.tril(x)'s from x; torch.eye(len(x)) is new.
            if not histories.is_namespace(part.func.value):
                stack.append(part.func.value)
            elif part.args and part.func.attr in _COMPUTING:
                stack.append(part.args[0])
    if len(found) > 1 and device == "cpu":  # a number may be with tensors of any device
        found = {key: value for key, value in found.items() if value.dim() > 0}
    return next(iter(found.values())) if len(found) == 1 else None


def argument_node(use: Use, tensor: object) -> ast.expr | None:
    """The argument of the call at `use` that is this tensor."""
    if use.file is None or not isinstance(use.node, ast.Call):
        return None
    given = [part for a in [*use.node.args, *(k.value for k in use.node.keywords)] for part in _elements(a)]
    found = _same_value(given, tensor, use.frame, exact=True)
    return _through_callee(use.node, use.inner, tensor) if found is None and use.inner is not None else found


def parts(node: ast.AST) -> list[ast.expr]:
    """The expressions that an operation is applied to."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign):
        return [node.target, node.value]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Subscript):
        return [node.value, *_elements(node.slice)]
    if isinstance(node, ast.Call):
        parts = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            parts += _elements(argument)
        return parts
    return []


def _elements(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return [part for element in node.elts for part in _elements(element)]
    if isinstance(node, ast.Dict):
        return [part for element in node.values for part in _elements(element)]
    return [node.value] if isinstance(node, ast.Starred) else [node]


def _same_value(nodes: list[ast.expr], tensor: object, frame: types.FrameType, exact: bool = False) -> ast.expr | None:
    if tensor is None:
        return None
    best: tuple[int, ast.expr] | None = None
    for node in nodes:
        value = values.evaluate(node, frame)
        likeness = None if value is values.MISSING else values.likeness(value, tensor)
        if likeness is not None and (not exact or likeness == 0) and (best is None or likeness < best[0]):
            best = (likeness, node)
    return best[1] if best else None


def _could_be(node: ast.AST, tensor: object, frame: types.FrameType) -> bool:
    """False where the expression's value is known, and is another tensor."""
    value = values.evaluate(node, frame)
    return value is values.MISSING or not values.is_tensor(value) or values.likeness(value, tensor) is not None


def by_place(node: ast.AST, operand: RawOperand, op: str) -> ast.expr | None:
    """The expression that stands where the operator's schema has the argument."""
    place, element = operand.get("position", -1), operand.get("index", -1)
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        pair = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.target, node.value]
        same = op.strip("_") in _OPERATORS.get(type(node.op), "").split()
        return pair[place] if same and 0 <= place < 2 else None
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        return [node.left, node.comparators[0]][place] if 0 <= place < 2 else None
    if isinstance(node, ast.Subscript) and op in ("index", "index_put_", "_index_put_impl_"):
        if place == 0:
            return node.value
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        plain = not any(isinstance(part, (ast.Slice, ast.Constant, ast.Starred)) for part in parts)
        return parts[element] if plain and 0 <= element < len(parts) else None
    if isinstance(node, ast.Call):
        return _argument(node, operand, op, place, element)
    return None


def _argument(call: ast.Call, operand: RawOperand, op: str, place: int, element: int) -> ast.expr | None:
    name = histories.called_name(call)
    if name.strip("_") != op.strip("_") or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    node: ast.expr | None = None
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        if keyword.arg == operand.get("argument"):
            node = keyword.value
    if node is None:
        arguments = list(call.args)
        if isinstance(call.func, ast.Attribute) and not histories.is_namespace(call.func.value):
            arguments.insert(0, call.func.value)
        node = arguments[place] if 0 <= place < len(arguments) else None
    if element >= 0 and isinstance(node, (ast.List, ast.Tuple)):
        plain = not any(isinstance(part, ast.Starred) for part in node.elts)
        return node.elts[element] if plain and element < len(node.elts) else None
    return node if element < 0 else None


def _through_callee(call: ast.Call, inner: types.FrameType, tensor: object) -> ast.expr | None:
    """The argument of the user's call that arrived in the called function as this very tensor."""
    code = inner.f_code
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    received = inner.f_locals
    names = list(code.co_varnames[: code.co_argcount])
    bound = 1 if names and names[0] in ("self", "cls") else 0
    best: tuple[int, ast.expr] | None = None

    def offer(value: object, node: ast.expr | None) -> None:
        nonlocal best
        if node is None:
            return
        elements = _elements(node)
        if isinstance(value, (list, tuple)) and isinstance(node, (ast.List, ast.Tuple)) and len(elements) == len(value):
            for part, element in zip(elements, value):
                offer(element, part)
            return
        likeness = values.likeness(value, tensor)
        if likeness is not None and (best is None or likeness < best[0]):
            best = (likeness, node)

    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    for number, name in enumerate(names[bound:]):
        if name in received:
            offer(received[name], call.args[number] if number < len(call.args) else keywords.get(name))
    rest = len(names) + code.co_kwonlyargcount
    if code.co_flags & 0x4:  # *args
        extra = received.get(code.co_varnames[rest], ())
        for number, value in enumerate(extra if isinstance(extra, tuple) else ()):
            place = number + len(names) - bound
            offer(value, call.args[place] if place < len(call.args) else None)
        rest += 1
    if code.co_flags & 0x8:  # **kwargs
        extra = received.get(code.co_varnames[rest], {})
        for name, value in (extra if isinstance(extra, dict) else {}).items():
            offer(value, keywords.get(name))
    tensor = None  # as in stem(): `offer` knows itself
    return best[1] if best else None
