"""Makes programs with exactly one placement mistake out of a correct one: `python mutate.py prog.py -o mutants`.

Each mutant differs from the program by one edit of its text, found through the syntax tree, everything else kept to
the character. Does not run anything: whether PyTorch would refuse a mutant is for the caller to see.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from program_text import ProgramText, TextEdit

_DTYPES = {
    "float", "float16", "float32", "float64", "half", "double", "bfloat16", "int", "int8", "int16", "int32", "int64",
    "long", "short", "bool", "uint8", "complex64", "complex128", "cfloat", "cdouble",
}  # fmt: skip
_CONTAINERS = {"ModuleList": "list", "ParameterList": "list", "ModuleDict": "dict", "ParameterDict": "dict"}
_LIKE = {"zeros_like": "zeros", "ones_like": "ones", "empty_like": "empty", "randn_like": "randn", "rand_like": "rand"}
_NEW = {"new_zeros": "zeros", "new_ones": "ones", "new_empty": "empty", "new_full": "full", "new_tensor": "tensor"}

_TENSOR = ["default-device", "batch-not-moved", "handoff-missing", "plain-attribute", "cache", "checkpoint", "index"]
_MODULE = ["model-not-moved", "handoff-missing", "loss-weight", "plain-container", "optimizer-state"]
_LATER = ["other", "gradient", "cache"]


@dataclass
class Mutant:
    """One mistake: where it is, what it was, what a checker should say about it."""

    kind: str
    file: str
    line: int
    old: str
    new: str
    expected: list[str]
    culprit: str
    accepted_lines: list[int] = field(default_factory=list)
    path: str | None = None

    def describe(self) -> str:
        return f"{self.file}:{self.line}: {self.kind} ({self.culprit}): {self.old.strip()}  ->  {self.new.strip()}"


def mutants(source: str, file: str = "program.py") -> Iterator[tuple[Mutant, str]]:
    """Every mutant of the program, with its text; in the order of the lines."""
    program = ProgramText(source, file)
    found: list[tuple[Mutant, str]] = []
    for node in ast.walk(program.tree):
        for make in _MAKERS:
            found.extend(make(program, node))
    found.sort(key=lambda pair: (pair[0].line, pair[0].kind, pair[0].culprit))
    seen = set()
    for mutant, text in found:
        if text in seen or text == source or not _is_valid(text):
            continue
        seen.add(text)
        yield mutant, text


def _is_valid(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _mutant(
    program: ProgramText, node: ast.AST, kind: str, edit: TextEdit, expected: list[str], culprit: str,
    at: int | None = None,
) -> tuple[Mutant, str]:  # fmt: skip
    text = program.applied(edit)
    first, last = program.line_of(edit.start), program.line_of(max(edit.start, edit.end - 1))
    grown = edit.text.count("\n") - program.bytes[edit.start : edit.end].count(b"\n")
    new_lines = text.splitlines()[first - 1 : last + grown]
    accepted = dict.fromkeys(program.statement_lines(node))
    base = culprit.split("[")[0].split("(")[0]
    for name in (culprit, base, base.rsplit(".", 1)[0] if "." in base and not base.startswith("self.") else base):
        accepted.update(dict.fromkeys(program.bound_at.get(name, [])))
    if grown:  # below the edit everything has moved
        accepted = dict.fromkeys(line + (grown if line > last else 0) for line in accepted)
    line = at if at is not None else first
    return (
        Mutant(
            kind,
            program.file,
            line,
            program.lines(first, last),
            "\n".join(new_lines),
            expected,
            culprit,
            sorted({line, *accepted}),
        ),
        text,
    )


# --- The mistakes ----------------------------------------------------------------------------------------------------


def _drop_move(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`x.to(device)`, `x.cuda()` and `x.cpu()` become `x`; `x = x.to(device)` becomes `x.to(device)` too."""
    if not _is_move(node) or program.in_format_string(node):
        return
    receiver = node.func.value
    name = program.text(receiver)
    edit = TextEdit(_dot_before(program, node.func), program.end(node), "")
    yield _mutant(program, node, f"drop-{node.func.attr}", edit, _reasons_of_move(program, node), name)
    statement = program.parents[node]
    if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
        target = statement.targets[0]
        if program.text(target) == name:
            cut = TextEdit(program.start(statement), program.start(node), "")
            yield _mutant(program, node, "drop-result", cut, ["to-not-assigned", *_TENSOR], name)


def _is_move(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("cuda", "cpu"):
        return not (isinstance(node.func.value, ast.Name) and node.func.value.id == "torch")
    if node.func.attr != "to":
        return False
    wanted = [a for a in node.args] + [k.value for k in node.keywords if k.arg in ("device", "other")]
    return any(not _is_dtype(a) for a in wanted[:1])


def _is_dtype(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and (node.attr in _DTYPES or node.attr.endswith("dtype"))) or (
        isinstance(node, ast.Name) and "dtype" in node.id
    )


def _dot_before(program: ProgramText, attribute: ast.Attribute) -> int:
    position = program.end(attribute) - len(attribute.attr.encode())
    return program.bytes.rindex(b".", 0, position)


def _reasons_of_move(program: ProgramText, call: ast.Call) -> list[str]:
    receiver = call.func.value
    text = program.text(receiver)
    destination = program.text(call.args[0]) if call.args else ""
    if call.func.attr == "cpu" or destination in ('"cpu"', "'cpu'"):
        packing = any(isinstance(a, ast.Call) and "pack_padded" in ast.unparse(a.func) for a in program.ancestors(call))
        first = ["lengths-must-be-cpu"] if packing else ["host-access"]
        return [
            *first,
            "index",
            "handoff-missing",
            "default-device",
            "other",
            "inconsistent-source",
            "batch-not-moved",
            "generator",
        ]
    if "Loss" in text or "criterion" in text:
        return ["loss-weight", *_MODULE]
    called = receiver.func if isinstance(receiver, ast.Call) else None
    callee = ast.unparse(called).rsplit(".", 1)[-1] if called is not None else ""
    statement = program.parents[call]
    if callee[:1].isupper() or isinstance(statement, ast.Expr):
        made = [] if program.is_module_class(callee) else _TENSOR  # an object of the program's own that holds tensors
        return [*_MODULE, "to-not-assigned", *_LATER, *made]
    if callee == "load":
        return ["checkpoint", *_TENSOR]
    loops = [
        a
        for a in program.ancestors(call)
        if isinstance(a, (ast.For, ast.comprehension, ast.GeneratorExp, ast.ListComp))
    ]
    if loops:
        return ["batch-not-moved", *_TENSOR, *_MODULE, *_LATER]
    if any(isinstance(a, ast.FunctionDef) and a.name in ("forward", "__call__") for a in program.ancestors(call)):
        return ["handoff-missing", *_TENSOR, *_LATER]
    return [*_TENSOR, *_MODULE, "to-not-assigned", "inconsistent-source", *_LATER]


def _drop_keyword(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`device=…` and `map_location=…` go."""
    if not isinstance(node, ast.Call) or program.in_format_string(node):
        return
    callee = ast.unparse(node.func)
    for keyword in node.keywords:
        if keyword.arg not in ("device", "map_location") or callee.endswith(".to"):
            continue
        if isinstance(keyword.value, ast.Constant) and keyword.value.value in ("meta", None):
            continue
        edit = _without_argument(program, keyword)
        if keyword.arg == "map_location":
            expected, kind = ["checkpoint", *_TENSOR, "optimizer-state"], "drop-map-location"
        elif callee.endswith("Generator"):
            expected, kind = ["generator"], "drop-device"
        elif callee.rsplit(".", 1)[-1][:1].isupper():
            expected, kind = list(_MODULE), "drop-device"
        else:
            expected, kind = (
                [*_TENSOR, "loss-weight", "gradient", "optimizer-state", "other", "plain-container"],
                "drop-device",
            )
        if any(other.arg == "generator" for other in node.keywords):
            expected = [*expected, "generator"]
        yield _mutant(program, node, kind, edit, expected, _target_of(program, node))
        value = keyword.value
        if isinstance(value, ast.Attribute) and value.attr == "device" and ast.unparse(value.value) != "torch":
            pin = TextEdit(program.start(value), program.end(value), '"cuda:0"')
            yield _mutant(program, node, "pin-device", pin, ["replica-pinned", *_TENSOR], _target_of(program, node))


def _without_argument(program: ProgramText, keyword: ast.keyword) -> TextEdit:
    start, end = program.start(keyword), program.end(keyword)
    before = program.bytes[:start].rstrip()
    if before.endswith(b","):
        return TextEdit(len(before) - 1, end, "")
    after = program.bytes[end:]
    rest = after.lstrip()
    if rest.startswith(b","):
        rest = rest[1:].lstrip(b" ")
        return TextEdit(start, len(program.bytes) - len(rest), "")
    return TextEdit(start, end, "")


def _target_of(program: ProgramText, node: ast.AST) -> str:
    """The name that a person would give to what this call makes."""
    statement = program.statement(node)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return program.text(statement.targets[0])
    return program.text(node)


def _buffer_to_attribute(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`self.register_buffer("x", v)` becomes `self.x = v`."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return
    call = node.value
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer" and call.args):
        return
    value = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "tensor"), None)
    name = call.args[0]
    if value is None or not (isinstance(name, ast.Constant) and str(name.value).isidentifier()):
        return
    attribute = f"{program.text(call.func.value)}.{name.value}"
    edit = TextEdit(program.start(call), program.end(call), f"{attribute} = {program.text(value)}")
    yield _mutant(program, node, "buffer-to-attribute", edit, ["plain-attribute", "cache"], attribute)


def _container_to_plain(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`nn.ModuleList([…])` becomes `[…]`, and so on."""
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) > 1 or program.in_format_string(node):
        return
    plain = _CONTAINERS.get(ast.unparse(node.func).rsplit(".", 1)[-1])
    if plain is None:
        return
    if not node.args:
        text = "[]" if plain == "list" else "{}"
    else:
        argument = node.args[0]
        text = program.text(argument)
        if isinstance(argument, ast.GeneratorExp):
            text = f"{plain}{text}" if text.startswith("(") else f"{plain}({text})"
        elif not isinstance(argument, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
            text = f"{plain}({text})"
    edit = TextEdit(program.start(node), program.end(node), text)
    yield _mutant(
        program, node, "container-to-plain", edit, ["plain-container", "model-not-moved"], _target_of(program, node)
    )


def _like_to_factory(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`torch.zeros_like(x)` becomes `torch.zeros(x.shape)`, `x.new_zeros(n)` becomes `torch.zeros(n)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)) or program.in_format_string(node):
        return
    name = node.func.attr
    expected = [*_TENSOR, "gradient", "other", "optimizer-state"]
    if name in _LIKE and len(node.args) == 1 and ast.unparse(node.func.value) == "torch":
        argument = node.args[0]
        text = program.text(argument)
        if not isinstance(argument, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            text = f"({text})"
        # The type is to stay: what differs is the device alone.
        typed = "" if any(keyword.arg == "dtype" for keyword in node.keywords) else f", dtype={text}.dtype"
        edit = TextEdit(program.start(node.func), program.end(argument), f"torch.{_LIKE[name]}({text}.shape{typed}")
        yield _mutant(program, node, "like-to-factory", edit, expected, _target_of(program, node))
    elif name in _NEW:
        edit = TextEdit(program.start(node.func), program.end(node.func), f"torch.{_NEW[name]}")
        yield _mutant(program, node, "like-to-factory", edit, expected, _target_of(program, node))


def _move_after_optimizer(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """The statement that moves a model goes below the one that builds its optimizer."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for i, statement in enumerate(block):
            model = _moved_in_place(statement)
            if model is None:
                continue
            for later in block[i + 1 :]:
                if (
                    isinstance(later, ast.Assign)
                    and "optim" in ast.unparse(later.value)
                    and f"{model}.parameters" in ast.unparse(later.value)
                ):
                    first, last = program.line_starts[statement.lineno - 1], program.line_starts[later.end_lineno]
                    body = program.lines(statement.end_lineno + 1, later.end_lineno)
                    moved = program.lines(statement.lineno, statement.end_lineno)
                    edit = TextEdit(first, last, f"{body}\n{moved}\n")
                    expected = ["optimizer-state", *_MODULE, *_TENSOR]
                    yield _mutant(program, statement, "optimizer-before-move", edit, expected, model, later.lineno)
                    break


def _moved_in_place(statement: ast.stmt) -> str | None:
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not (isinstance(call, ast.Call) and _is_move(call) and isinstance(call.func.value, (ast.Name, ast.Attribute))):
        return None
    receiver = ast.unparse(call.func.value)
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) != receiver:
        return None
    return receiver


def _drop_synchronize(program: ProgramText, node: ast.AST) -> Iterator[tuple[Mutant, str]]:
    """`torch.cuda.synchronize()`, `event.synchronize()` go; PyTorch won't complain."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and b"non_blocking=True" in program.bytes):
        return
    if isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "synchronize":
        edit = TextEdit(program.start(node), program.end(node), "pass")
        mutant, text = _mutant(program, node, "drop-synchronize", edit, ["read-too-early"], "")
        asynchronous = [
            i for i, line in enumerate(text.splitlines(), 1) if "non_blocking=True" in line and i <= node.lineno
        ]
        mutant.accepted_lines = sorted({*mutant.accepted_lines, *asynchronous[-1:]})
        yield mutant, text


_MAKERS: tuple[Callable[[ProgramText, ast.AST], Iterator[tuple[Mutant, str]]], ...] = (
    _drop_move,
    _drop_keyword,
    _buffer_to_attribute,
    _container_to_plain,
    _like_to_factory,
    _move_after_optimizer,
    _drop_synchronize,
)


# --- The command line ------------------------------------------------------------------------------------------------


def write_mutants(path: str, folder: str) -> Iterator[Mutant]:
    """Writes every mutant of a program into a folder."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    os.makedirs(folder, exist_ok=True)
    stem = os.path.splitext(os.path.basename(path))[0]
    for number, (mutant, text) in enumerate(mutants(source, path), 1):
        mutant.path = os.path.join(folder, f"{stem}__{number:02}_{mutant.kind.replace('-', '_')}.py")
        with open(mutant.path, "w", encoding="utf-8") as file:
            file.write(text)
        yield mutant


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 2 where a program can't be read."""
    parser = argparse.ArgumentParser(prog="mutate.py", description="Make programs with one placement mistake each.")
    parser.add_argument("program", nargs="+", help="a correct program")
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="mutants", help="the folder to write to (default: mutants)"
    )
    parser.add_argument("--list", action="store_true", help="say what would be made, in words; write nothing")
    options = parser.parse_args(arguments)
    for path in options.program:
        try:
            if options.list:
                with open(path, encoding="utf-8") as file:
                    for mutant, _ in mutants(file.read(), path):
                        print(mutant.describe())
            else:
                for mutant in write_mutants(path, options.output):
                    print(json.dumps(asdict(mutant)))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(f"locus: error: can't make mutants of {path}: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
