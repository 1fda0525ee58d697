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
from typing import Any, NamedTuple

import torch

from locus import expressions, facts, places, source, values
from locus._load import load_bridge

_DEVICE = r"(?:cuda|cpu|meta|mps|xpu)(?::\d+)?"


class Finding:
    """What Locus has to say about an exception. `str()` of it is the text; `data` is as in the JSON report."""

    def __init__(self, data: dict[str, Any], text: str):
        self.data, self.text = data, text

    code = property(lambda self: self.data["code"], doc="Such as LOC003.")
    reason = property(lambda self: self.data["reason"], doc="Such as plain-attribute.")
    message = property(lambda self: self.data["message"], doc="One sentence.")
    cause = property(lambda self: self.data["cause"], doc="The line to edit: file and line.")
    culprit = property(lambda self: self.data["culprit"], doc="The tensor: name, kind, device, expected_device.")
    fixes = property(lambda self: self.data["fixes"], doc="The edits.")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<finding {self.code} {self.reason}: {self.message}>"


class _Pattern(NamedTuple):
    words: re.Pattern[str]
    kind: str


def _pattern(kind: str, words: str) -> _Pattern:
    return _Pattern(re.compile(words.replace("DEVICE", _DEVICE)), kind)


# The first that is found in a message decides. Groups: `home` is the device that the others are on, `op` PyTorch's name
# for the kernel.
_PATTERNS = (
    _pattern("operator", r"Expected all tensors to be on the same device, but got \w+ is on (?P<a>DEVICE), different from "
                         r"other tensors on (?P<b>DEVICE) \(when checking argument in method wrapper_CUDA_(?P<op>\w+)\)"),
    _pattern("operator", r"Expected all tensors to be on the same device, but found at least two devices, (?P<a>DEVICE) "
                         r"and (?P<b>DEVICE)!(?:.*in method wrapper_CUDA_(?P<op>\w+)\))?"),
    _pattern("operator", r"Expected all tensors to be on the same device"),
    _pattern("operator", r"Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same"),
    _pattern("operator", r"Input and (?:hidden|parameter) tensors are not at the same device, found \w+ tensor at "
                         r"(?P<a>DEVICE) and \w+ tensor at (?P<b>DEVICE)"),
    _pattern("operator", r"Expected query, key, and value to have the same device type"),
    _pattern("operator", r"Expected out tensor to have device (?P<home>DEVICE), but got (?P<a>DEVICE) instead"),
    _pattern("operator", r"expected self and mask to be on the same device"),
    _pattern("index", r"indices should be either on cpu or on the same device as the indexed tensor \((?P<home>DEVICE)\)"),
    _pattern("lengths", r"'lengths' argument should be a 1D CPU int64 tensor"),
    _pattern("host-access", r"can't convert (?P<a>DEVICE) device type tensor to numpy"),
    _pattern("module", r"module must have its parameters and buffers on device (?P<home>DEVICE)"),
    _pattern("collective", r"No backend type associated with device type (?P<a>cpu)|Tensors must be CUDA and dense"),
    _pattern("operator", r"Expected .* to be on (?:the same device|CUDA)|must be on the same device"),
)  # fmt: skip

_KINDS = (RuntimeError, TypeError, ValueError)


def recognise(error: BaseException) -> tuple[str, re.Match[str]] | None:
    """(kind, match) where this is PyTorch's word on a tensor that is on the wrong device."""
    if not isinstance(error, _KINDS):
        return None
    text = str(error)
    for pattern in _PATTERNS:
        match = pattern.words.search(text)
        if match is not None:
            return pattern.kind, match
    return None


class FrameAt:
    """A frame of a traceback as it was when the exception passed: a frame that has gone on is somewhere else now."""

    def __init__(self, frame: types.FrameType, instruction: int, line: int):
        self.frame, self.f_lasti, self.f_lineno = frame, instruction, line
        self.f_code, self.f_globals, self.f_builtins = frame.f_code, frame.f_globals, frame.f_builtins
        self.f_back: FrameAt | None = None

    @property
    def f_locals(self) -> Any:
        return self.frame.f_locals


def traceback_frames(error: BaseException) -> list[Any]:
    """The frames of an exception's traceback, innermost first, without Locus's own."""
    frames: list[FrameAt] = []
    traceback = error.__traceback__
    while traceback is not None:
        frame = FrameAt(traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
        if places.kind_of_file(frame.f_code.co_filename) != "locus":
            frame.f_back = frames[-1] if frames else None
            frames.append(frame)
        traceback = traceback.tb_next
    return frames[::-1]


def explain(error: BaseException, frames: list[Any] | None = None) -> Finding | None:
    """The finding behind an exception, or None where it is about something else. `frames`: those that led to it."""
    known = recognise(error)
    if known is None:
        return None
    kind, match = known
    frames = traceback_frames(error) if frames is None else frames
    if not frames:
        return None
    raw = _raw(kind, match, str(error).partition("\n")[0], frames)
    if raw is None:
        return None
    case = facts.build_case(raw, frames)
    _tell_of_new(case)
    width = shutil.get_terminal_size((80, 24)).columns
    data, text = load_bridge().explain_case(json.dumps(case), max(60, min(width, 100)), os.getcwd())
    found = json.loads(data)["findings"]
    return Finding(found[0], text.rstrip("\n")) if found else None


def _raw(kind: str, match: re.Match[str], message: str, frames: list[Any]) -> dict[str, Any] | None:
    """What the bridge would have handed over, had it been at the door."""
    said = match.groupdict()
    operands = _operands(kind, frames)
    home = said.get("home") or _home(said, operands)
    raw: dict[str, Any] = {
        "kind": kind if kind in ("operator", "index", "lengths", "host-access") else "operator",
        "overload": _operator(said.get("op"), frames[0], kind), "error": message, "device": home,
        "in_backward": _in_backward(frames), "forward_site": 0, "site": 0, "step": 0, "key": 0,
    }  # fmt: skip
    rule = {"index": "index", "lengths": "cpu"}.get(kind)
    for number, operand in enumerate(operands):
        device = str(operand["tensor"].device)
        operand["odd"] = _is_odd(kind, number, operand["tensor"], device, home)
        if rule is not None and operand["odd"]:
            operand["rule"] = rule
    operands += _unread(frames[0], home, any(operand["odd"] for operand in operands), kind)
    if not any(operand["odd"] for operand in operands):
        return None  # the tensors that can be read all agree: whatever is wrong, we don't see it
    raw["operands"] = operands
    return raw


def _is_odd(kind: str, number: int, tensor: Any, device: str, home: str) -> bool:
    if kind == "index":
        return number > 0 and device not in ("cpu", home)
    if kind == "lengths":
        return device != "cpu" and tensor.dim() == 1 and not tensor.is_floating_point()
    if kind == "host-access":
        return device != "cpu"
    return device != home and not (tensor.dim() == 0 and device == "cpu")


def _home(said: dict[str, Any], operands: list[dict[str, Any]]) -> str:
    """The device that the call is meant for: the CUDA device of the message, or that most operands are on."""
    named = [said[key] for key in ("b", "a") if said.get(key)]
    on_cuda = [device for device in named if device.startswith("cuda")]
    if on_cuda:
        return on_cuda[0]
    devices = [str(operand["tensor"].device) for operand in operands]
    on_cuda = [device for device in devices if device.startswith("cuda")]
    return max(set(on_cuda), key=on_cuda.count) if on_cuda else "cuda:0"


def _operator(wrapper: str | None, frame: Any, kind: str) -> str:
    if kind == "host-access":
        return "numpy"
    if wrapper:
        # "_index_select", "addmm", "Tensor_add": the operator is what PyTorch knows, with or without what stands before.
        for name in (wrapper, wrapper.lstrip("_"), wrapper.partition("_")[2], wrapper.rpartition("_")[0]):
            if name and hasattr(torch.ops.aten, name):
                return f"aten::{name}"
    file = source.load(frame.f_code.co_filename)
    node = file.at(*places.positions(frame.f_code, frame.f_lasti)) if file is not None else None
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return f"aten::{name}" if name else ""
    words = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow"}
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return f"aten::{words.get(type(node.op), type(node.op).__name__.lower())}"
    if isinstance(node, ast.Subscript):
        return "aten::index"
    return ""


def _operands(kind: str, frames: list[Any]) -> list[dict[str, Any]]:
    """The tensors of the call that raised, in the order of its expressions."""
    found: list[Any] = []
    frame = frames[0]
    if kind == "module":
        owner = frame.f_locals.get("self")
        module = values.get_attribute(owner, "module") if owner is not None else frame.f_locals.get("module")
        held = [*module.parameters(), *module.buffers()] if values.is_module(module) else []
        found = [frame.f_locals["t"]] if values.is_tensor(frame.f_locals.get("t")) else held
        return [_operand("self", number, tensor) for number, tensor in enumerate(found)]
    for part in _call_parts(frame):
        found += _tensors(values.evaluate(part, frame))
    if not found:  # a function in C++ was called with what stands in local variables, or not at all by this line
        for value in list(frame.f_locals.values()):
            found += _tensors(value)
    distinct = {id(tensor): tensor for tensor in found}
    return [_operand(f"argument {number}", number, tensor) for number, tensor in enumerate(distinct.values())]


def _operand(argument: str, number: int, tensor: Any) -> dict[str, Any]:
    return {"argument": argument, "position": number, "index": -1, "tensor": tensor, "odd": False, "rule": "same",
            "written": False}  # fmt: skip


def _tensors(value: Any) -> list[Any]:
    if values.is_tensor(value):
        return [value]
    if type(value) in (list, tuple) and len(value) <= 4096:
        return [item for element in value for item in _tensors(element)]
    return []


def _call_parts(frame: Any) -> list[ast.AST]:
    file = source.load(frame.f_code.co_filename)
    node = file.at(*places.positions(frame.f_code, frame.f_lasti)) if file is not None else None
    return expressions.parts(node) if node is not None else []


def _unread(frame: Any, home: str, found: bool, kind: str) -> list[dict[str, Any]]:
    """The operand that was made in the expression itself and is gone: its text is known, and on which side it stood."""
    new = [part for part in _call_parts(frame) if isinstance(part, (ast.Call, ast.BinOp))]
    if len(new) != 1 or kind not in ("operator", "host-access") or (found and kind == "host-access"):
        return []
    device = home if found or kind == "host-access" or not home.startswith("cuda") else "cpu"
    return [{**_operand("argument", -1, None), "odd": not found, "node": new[0], "device": device}]


def _tell_of_new(case: dict[str, Any]) -> None:
    """An operand that a factory made in the very expression: that much of its history is in the text."""
    for operand in case["operands"]:
        match = re.fullmatch(r"torch\.(\w+)\((.*)\)", operand["expression"] or "", re.DOTALL)
        if operand["history"] or match is None or match[1] not in _FACTORIES:
            continue
        step = {"action": "created", "op": match[1], "device": operand["device"], "explicit": "device=" in match[2]}
        operand["history"] = [{**step, "at": case["use"]}]


_FACTORIES = {"arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm",
              "tensor", "zeros"}  # fmt: skip


def _in_backward(frames: list[Any]) -> bool:
    return any(frame.f_code.co_name == "_engine_run_backward" for frame in frames[:3])
