"""From an exception of PyTorch's about devices to a finding: which call raised it, on which tensors, which one is odd.

Reads the frames of the exception and the words of its message; runs nothing of the program. What can't be read is left
out. The finding itself is decided and worded in C++, as for a check.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from locus._load import load_bridge
from locus.blame import facts
from locus.blame.operands import raw
from locus.program import cells, expressions, histories, places, shapes, source, values
from locus.program.text_index import span
from locus.watch import asked, forked, messages, refusals
from locus.watch.messages import Finding
from locus.watch.tracebacks import traceback_frames

if TYPE_CHECKING:
    from locus.program.raw_shapes import RawCase, RawOperand
    from locus.program.shapes import Candidate, Case, Location
    from locus.vocabulary import CaseKind


def explain(error: BaseException, frames: list[types.FrameType] | None = None) -> Finding | None:
    """The finding behind an exception, or None where it is about something else. `frames`: those that led to it."""
    said = messages.recognize(error)
    if said is None:
        return None
    frames = traceback_frames(error) if frames is None else frames
    if not frames or isinstance(asked.refusing(frames[0]), ast.Raise):
        return None  # whatever it says, PyTorch did not say it
    known = describe(said, str(error), frames)
    if known is None:
        return None
    bridge = load_bridge()
    return _rendered(bridge.explain_case if known[0] else bridge.explain_finding, known[1])


def describe(
    said: messages.Said, text: str, frames: list[types.FrameType]
) -> tuple[bool, Case | shapes.Finding] | None:
    """(True, a case for blame) or (False, a finding) behind an error's words; None where its tensors can't be read."""
    if said.kind in refusals.KINDS:
        finding = refusals.explain(said.kind, text, frames)
        return (False, finding) if finding is not None else None
    if said.kind == "fork":
        return True, forked_case(text, frames)
    first = next((line for line in text.splitlines() if said.match[0] in line), text.partition("\n")[0])
    refused = asked.about(frames[0]) if said.kind == "operator" else None
    seen = _raw(said, first, frames, refused)
    if seen is None:
        return None
    case = facts.build_case(seen, frames)
    if refused is not None:
        case["refused_with"] = messages.quoted(first)
    case["replica"] = places.in_replica(frames)
    _tell_of_new(case)
    if said.kind == "gradient" and case["operands"]:
        given_back = _returned_by(said.parts.get("function", ""), frames)
        if given_back is not None:
            candidate: Candidate = {"edit": "move_on_the_way", "at": given_back, "fix": None, "facts": ["given_back"]}
            case["operands"][0].setdefault("candidates", []).append(candidate)
    return True, case


def _rendered(render: Callable[[str, int, str], tuple[bytes, str]], about: Mapping[str, object]) -> Finding | None:
    width = shutil.get_terminal_size((80, 24)).columns
    data, text = render(cells.named(json.dumps(about)), max(60, min(width, 100)), os.getcwd())
    found = json.loads(data)["findings"]
    return Finding(found[0], text.rstrip("\n")) if found else None


def forked_case(text: str, frames: list[types.FrameType]) -> Case:
    """The case of CUDA in a forked process: told by a worker's traceback, or by our own frames."""
    case = forked.make_case(text, 0)
    if not case["use"]["line"]:
        users = places.user_frames(frames)
        if users:
            case["use"] = places.frame_location(users[0])
            case["stack"] = [case["use"]]
            case["op"] = "the process"
    return case


def _raw(
    said: messages.Said, message: str, frames: list[types.FrameType], refused: asked.Asked | None
) -> RawCase | None:
    """What the bridge would have handed over, had it been at the door."""
    if said.kind in ("gradient", "hook", "assigned"):
        return _gradient(said, message, frames)
    if said.kind == "generator":
        return _generator(said, message, frames)
    kind = said.kind
    operands = refused.operands if refused is not None else _operands(kind, frames)
    home = said.parts.get("home") or (refused.device if refused is not None else "")
    home = home or _replica_device(frames) or _home(said.parts, operands)
    if kind == "parameters":  # PyTorch keeps the number of the first one's device
        number = frames[0].f_locals.get("old_param_device")
        home = f"cuda:{number}" if isinstance(number, int) and number >= 0 else "cpu"
    rule = {"index": "index", "lengths": "cpu"}.get(kind)
    for number, operand in enumerate(operands):
        operand["odd"] = _is_odd(kind, number, operand, home)
        if rule is not None and operand["odd"]:
            operand["rule"] = rule
    other = next((said.parts[key] for key in ("a", "b") if said.parts.get(key, home) != home), "cpu")
    _judge_unread(operands, kind, home, other)
    if not any(operand["odd"] for operand in operands):
        return None  # the tensors that can be read all agree: whatever is wrong, we don't see it
    return _case(_KEPT.get(kind, "operator"), _operator(said, frames[0]), home, message, operands, frames)


_KEPT: dict[str, CaseKind] = {"index": "index", "lengths": "lengths", "host-access": "host-access"}


def _case(
    kind: CaseKind, op: str, home: str, message: str, operands: list[RawOperand], frames: list[types.FrameType]
) -> RawCase:
    return {
        "kind": kind, "overload": op, "error": message, "device": home, "in_backward": _in_backward(frames),
        "forward_site": 0, "site": 0, "step": 0, "key": 0, "operands": operands,
    }  # fmt: skip


def _is_odd(kind: str, number: int, operand: RawOperand, home: str) -> bool:
    tensor, device = operand["tensor"], operand["device"]
    if not values.is_tensor(tensor):
        return bool(device) and device != home
    if kind == "index":
        return number > 0 and device not in ("cpu", home)
    if kind == "lengths":
        return device != "cpu" and number > 0 and tensor.dim() <= 1 and not tensor.is_floating_point()
    if kind == "host-access":
        return device != "cpu"
    if kind == "out":
        return operand["argument"] == "out" and device != home
    return device != home and not (tensor.dim() == 0 and device == "cpu")


def _home(said: dict[str, str], operands: list[RawOperand]) -> str:
    """The device that the call is meant for: the CUDA device of the message, or that most operands are on."""
    named = [said[key] for key in ("b", "a") if key in said]
    on_cuda = [device for device in named if device.startswith("cuda")]
    if on_cuda:
        return on_cuda[0]
    on_cuda = [operand["device"] for operand in operands if operand["device"].startswith("cuda")]
    return max(set(on_cuda), key=on_cuda.count) if on_cuda else "cuda:0"


def _replica_device(frames: list[types.FrameType]) -> str:
    """The device of the replica that DataParallel runs here."""
    for frame in frames if places.in_replica(frames) else ():
        device = frame.f_locals.get("device") if places.in_replica([frame]) else None
        if isinstance(device, (int, torch.device)):
            return str(torch.device("cuda", device) if isinstance(device, int) else device)
    return ""


def _operator(said: messages.Said, frame: types.FrameType) -> str:
    if said.kind == "host-access":
        return "from_dlpack" if "DLTensor" in said.match[0] else "numpy"
    if said.kind in ("module", "parameters"):
        return {"module": "DataParallel", "parameters": "parameters_to_vector"}[said.kind]
    wrapper = said.parts.get("op")
    if wrapper:
        # "_index_select", "addmm", "Tensor_add": the operator is what PyTorch knows, with or without what is in front.
        for name in (wrapper, wrapper.lstrip("_"), wrapper.partition("_")[2], wrapper.rpartition("_")[0]):
            if name and hasattr(torch.ops.aten, name):
                return f"aten::{name}"
    return f"aten::{operator_at(frame)}"


def operator_at(frame: types.FrameType) -> str:
    """What is called at a frame's line, by the name that its text gives it."""
    node = _node(frame)
    if isinstance(node, ast.Call) and histories.called_name(node):
        return histories.called_name(node)
    words = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow"}
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return words.get(type(node.op), type(node.op).__name__.lower())
    if isinstance(node, ast.Subscript):
        return "index"
    return frame.f_code.co_name.lstrip("_")


def _node(frame: types.FrameType) -> ast.AST | None:
    file = source.load(frame.f_code.co_filename)
    return file.at(*places.positions(frame.f_code, frame.f_lasti)) if file is not None else None


def _operands(kind: str, frames: list[types.FrameType]) -> list[RawOperand]:
    """The tensors of the call that raised, in the order of its expressions; what was made in them, as text."""
    frame = frames[0]
    if kind == "module":
        owner = frame.f_locals.get("self")
        module = values.get_attribute(owner, "module") if owner is not None else frame.f_locals.get("module")
        held = [*module.parameters(), *module.buffers()] if values.is_module(module) else []
        found = [frame.f_locals["t"]] if values.is_tensor(frame.f_locals.get("t")) else held
        return [raw("self", number, tensor) for number, tensor in enumerate(found)]
    if kind == "parameters":
        return [raw("param", 0, t) for t in [frame.f_locals.get("param")] if values.is_tensor(t)]
    node = _node(frame)
    out = [k.value for k in node.keywords if k.arg == "out"] if isinstance(node, ast.Call) else []
    listed: dict[int, RawOperand] = {}
    is_user = places.kind_of_file(frame.f_code.co_filename) != "torch"
    for part in expressions.parts(node) if node is not None else []:
        value = values.evaluate(part, frame)
        read = _tensors(value) or _tensors(_stem(part, frame))
        for tensor in read:
            argument = "out" if part in out else f"argument {len(listed)}"
            listed.setdefault(id(tensor), raw(argument, len(listed), tensor))
        if not read and isinstance(part, (ast.Call, ast.BinOp)):
            new = raw("argument", -1, None)
            new["device"], new["node"] = _device_in_text(part, frame), part if is_user else None
            listed[id(part)] = new
        elif not read and value is values.MISSING:  # tensors, maybe: nothing follows from the others
            listed[id(part)] = raw("opaque", -1, None)
    if not listed and not is_user:
        # A function in C++ was called with what a library function has in its local variables.
        for value in values.at_rest(frame.f_locals).values():
            for tensor in _tensors(value):
                listed.setdefault(id(tensor), raw(f"argument {len(listed)}", len(listed), tensor))
    return list(listed.values())


def _tensors(value: object) -> list[torch.Tensor]:
    if values.is_tensor(value):
        return [value]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple) and len(value) <= 4096:
        return [item for element in value for item in _tensors(element)]
    return []


_MOVING = {"to", "cuda", "cpu", "type", "type_as", "numpy", "item", "tolist"}


def _stem(node: ast.AST, frame: types.FrameType) -> object:
    """The tensor whose method gave an operand that is gone: `buf` of buf.mul_(2). It is on the same device."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.UnaryOp)):
        if isinstance(node, ast.UnaryOp):
            node = node.operand
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or node.func.attr in _MOVING:
                return values.MISSING
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr not in ("data", "T", "mT", "H"):
            return values.MISSING
        else:
            node = node.value
        value = values.evaluate(node, frame)
        if values.is_tensor(value):
            return value
    return values.MISSING


def _device_in_text(node: ast.AST, frame: types.FrameType) -> str:
    """Where a factory call, or `.cpu()`, in an expression puts its result: "" where the text does not say."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    if node.func.attr not in _FACTORIES:
        return "cpu" if node.func.attr == "cpu" and values.is_tensor(values.evaluate(node.func.value, frame)) else ""
    if not histories.is_namespace(node.func.value):
        return ""
    given = next((k.value for k in node.keywords if k.arg == "device"), None)
    if given is None:
        return "" if any(k.arg is None for k in node.keywords) else _indexed(torch.get_default_device())
    value = values.evaluate(given, frame)
    if isinstance(given, ast.Attribute) and given.attr == "device":
        owner = values.evaluate(given.value, frame)
        value = owner.device if values.is_tensor(owner) else value
    try:
        return _indexed(torch.device(value)) if isinstance(value, (str, int, torch.device)) else ""
    except (RuntimeError, TypeError):
        return ""


def _indexed(device: object) -> str:
    return "cuda:0" if str(device) == "cuda" and torch.cuda.device_count() == 1 else str(device)


def _judge_unread(operands: list[RawOperand], kind: str, home: str, other: str) -> None:
    """An operand that was made in the expression: on the side where one is missing, if all others are known."""
    unknown = [operand for operand in operands if operand["tensor"] is None and not operand["device"]]
    found = any(operand["odd"] for operand in operands)
    follows = len(unknown) == 1 and unknown[0]["argument"] != "opaque" and (kind != "operator" or len(operands) > 1)
    if follows and kind in ("operator", "host-access") and not (found and kind == "host-access"):
        stays = found or kind == "host-access" or not home.startswith("cuda")
        unknown[0]["device"], unknown[0]["odd"] = home if stays else other, not found
        unknown = []
    operands[:] = [operand for operand in operands if not any(operand is one for one in unknown)]


def _gradient(said: messages.Said, message: str, frames: list[types.FrameType]) -> RawCase | None:
    """A gradient that autograd itself refuses."""
    home, given, op = said.parts.get("home", ""), said.parts.get("a", ""), said.parts.get("function", "")
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    if said.kind == "assigned":
        pairs, op = _assigned(frames[0]), "grad"
    elif said.kind == "hook":
        home, given = ("cuda:0", "cpu") if home else ("cpu", "cuda:0")
        op = "a hook" if op == "<lambda>" else op
    elif not op:
        pairs, op = _roots(frames), "backward"
    elif op.endswith("Backward"):
        op = f"{op.removesuffix('Backward')}.backward"
    odd = next(((t, g) for t, g in pairs if t.device != g.device), None)
    if pairs and odd is None:
        return None
    if odd is not None:
        home = str(odd[0].device)
        operands = [raw("gradient", 0, odd[1]), raw("output" if op == "backward" else "tensor", 1, odd[0])]
    else:
        operands = [raw("gradient", 0, None)]
        operands[0]["device"] = given
    operands[0]["odd"] = True
    return _case("gradient", op, home, message, operands, frames) if home else None


def _returned_by(node: str, frames: list[types.FrameType]) -> Location | None:
    """Where the program's own autograd function gives its gradient back: `backward` of DoubleBackward is Double's."""
    name = node.removesuffix("Backward")
    for frame in frames if name != node else ():
        for names in (frame.f_locals, frame.f_globals):
            code = getattr(getattr(names.get(name), "backward", None), "__code__", None)
            file = source.load(code.co_filename) if isinstance(code, types.CodeType) else None
            if code is None or file is None or not places.is_user_file(file.file):
                continue
            scope = file.function_at(code.co_firstlineno, code.co_name)
            returns = [one for one in ast.walk(scope) if isinstance(one, ast.Return)] if scope is not None else []
            if len(returns) == 1:
                line, column, end_line, end_column = span(returns[0])
                return places.location(file.file, line, end_line, column, end_column, places.function_name(code))
    return None


def _roots(frames: list[types.FrameType]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(output, gradient) of a backward pass that did not begin."""
    for frame in frames[:3]:
        if frame.f_code.co_name == "_engine_run_backward":
            outputs, given = frame.f_locals.get("t_outputs"), frame.f_locals.get("args")
            gradients = given[0] if isinstance(given, tuple) and given else ()
            if isinstance(outputs, (list, tuple)) and isinstance(gradients, (list, tuple)):
                return [(o, g) for o, g in zip(outputs, gradients) if values.is_tensor(o) and values.is_tensor(g)]
    return []


def _assigned(frame: types.FrameType) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(tensor, gradient) of `p.grad = g`."""
    file = source.load(frame.f_code.co_filename)
    for statement in file.statements_at(frame.f_lineno) if file is not None else ():
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and target.attr == "grad":
                tensor, gradient = values.evaluate(target.value, frame), values.evaluate(statement.value, frame)
                if values.is_tensor(tensor) and values.is_tensor(gradient):
                    return [(tensor, gradient)]
    return []


def _generator(said: messages.Said, message: str, frames: list[types.FrameType]) -> RawCase:
    home, given = (_indexed(said.parts[key]) for key in ("home", "a"))
    operand = raw("generator", 0, None)
    operand["odd"], operand["generator_device"], operand["device"] = True, given, given
    return _case("generator", _operator(said, frames[0]), home, message, [operand], frames)


def _tell_of_new(case: Case) -> None:
    """An operand that a factory made in the very expression: that much of its history is in the text."""
    for operand in case["operands"]:
        match = re.fullmatch(r"torch\.(\w+)\((.*)\)", operand["expression"] or "", re.DOTALL)
        if operand["history"] or match is None or match[1] not in _FACTORIES:
            continue
        step: shapes.Step = {"action": "created", "op": match[1], "device": operand["device"],
                             "explicit": "device=" in match[2], "at": case["use"]}  # fmt: skip
        operand["history"] = [step]


_FACTORIES = {"arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm",
              "tensor", "zeros"}  # fmt: skip


def _in_backward(frames: list[types.FrameType]) -> bool:
    return any(frame.f_code.co_name == "_engine_run_backward" for frame in frames[:3])
