"""How to write a device at a place in a program, in the program's own words: `device`, `self.device`, `x.device`.

Only names that are bound there before that line; a literal such as "cuda:0" where there are none.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import types
from collections.abc import Sequence

import torch

from locus.fixing import class_attributes, given_devices, guarded_devices, named_devices, own_devices
from locus.fixing.ended import Ended
from locus.fixing.name_scopes import bound_before, frame_of, function_of, is_comprehended, is_optional, start
from locus.fixing.said_devices import devices_said
from locus.program import bindings, source, text_index, values
from locus.program.links import flow_of

_PREFERRED = (
    "device", "dev", "DEVICE", "self.device", "args.device", "cfg.device", "config.device", "opt.device",
    "self.args.device", "self.cfg.device", "self.config.device", "self.opt.device",
)  # fmt: skip
_PARAMETERS = ("device", "dev")
NAMES = {"device", "dev", "devices", "DEVICE", "device_id", "gpu"}
"""What variables that say a device are called."""


def write(
    file: source.Source,
    node: ast.AST,
    device: str,
    frames: list[types.FrameType],
    others: Sequence[tuple[ast.AST, source.Source]] = (),
) -> str:
    """The words for `device` at `node`.

    Args:
        frames: the live frames; one that runs the code around `node` tells what names mean there.
        others: expressions of operands that are on `device` already.
    """
    scope = function_of(file, node)
    frame = frame_of(file, scope, frames)
    names = values.globals_of(file.file, frames)
    in_method = isinstance(file.scope(scope), ast.ClassDef) if scope is not file.tree else False
    ended = Ended(file, scope, frames)
    local = _local(file, node, scope, device, frame, ended)
    if local:
        return local
    shared = None if scope is file.tree else _shared(file, node, device, names)
    # A function of a program with several cards may run on any of them: what it was given says on which.
    if shared and not in_method and not _names_several_cards(names):
        return shared
    words = _from_operand(file, node, scope, device, frame, others) or shared
    if not words and in_method:
        words = _from_parameters(file, scope, device, frames)
    words = words or _from_local_tensor(file, node, scope, device, frame)
    if not words and frame is None:
        words = given_devices.of_tensor(file, scope, device, frames)
    if not words and scope is not file.tree:
        words = _from_local_module(file, node, scope, device, frame)
    words = words or own_devices.write(file, node, scope, device, frame)
    with contextlib.suppress(BaseException):  # an object of the program may refuse to be looked at
        words = words or named_devices.write(file, node, scope, device, frames, ended)
    return words or guarded_devices.write(file, node, scope, device)


def numbered(file: source.Source, node: ast.AST, device: str, frames: list[types.FrameType]) -> str:
    """The words for a card that is not the current one, which a name for plain "cuda" would mean."""
    words, scope = write(file, node, device, frames), function_of(file, node)
    frame = frame_of(file, scope, frames)
    said = ast.parse(words, mode="eval").body
    value = values.evaluate(said, frame) if frame is not None else None
    # A function may be given tensors of any device; outside of functions the number says more than a tensor does.
    if frame is not None and scope is not file.tree and isinstance(said, ast.Attribute) and said.attr == "device":
        owner = values.evaluate(said.value, frame)
        value = owner.device if values.is_tensor(owner) else value
    return words if str(value) == device else f'"{device}"'


def of_looped_module(file: source.Source, node: ast.AST, frames: list[types.FrameType]) -> str:
    """`next(expert.parameters()).device`, for what is passed to a module that a loop gives: each may be elsewhere."""
    call = file.parent(node)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or node not in call.args:
        return ""
    loops = [a for a in file.ancestors(call) if isinstance(a, (ast.For, ast.AsyncFor))]
    loops += [generator for a in file.ancestors(call) for generator in getattr(a, "generators", ())]
    bound = {n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    frame = frame_of(file, function_of(file, call), frames)
    called = values.evaluate(call.func, frame) if frame is not None and call.func.id in bound else None
    has_any = values.is_module(called) and next(called.parameters(), None) is not None
    return f"next({call.func.id}.parameters()).device" if has_any else ""


def is_mentioned_in(tree: ast.AST) -> bool:
    """Whether a piece of program says anything about devices."""
    return text_index.once(tree, _is_mentioned_in)


def _is_mentioned_in(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", getattr(node, "arg", None))
        if isinstance(name, str) and (name in NAMES or name in ("cuda", "cpu")):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda"):
            return True
    return False


def same_device(value: object, device: str) -> bool:
    """Whether a value means this device to PyTorch."""
    if isinstance(value, torch.device):
        value = str(value)
    if not isinstance(value, str):
        return False
    return value == device or (value == "cuda" and device == "cuda:0")


def _local(
    file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None, ended: Ended
) -> str:  # fmt: skip
    """A variable of the function itself, or an attribute of one."""
    optional = ""
    for text in _PREFERRED:
        root, _, attribute = text.partition(".")
        if not bound_before(file, scope, root, node) or ("." in attribute and getattr(scope, "name", "") == "__init__"):
            continue
        if frame is not None:
            if same_device(values.evaluate(ast.parse(text, mode="eval").body, frame), device):
                return text
        elif device.startswith("cuda") and text in _PARAMETERS:
            if not is_optional(scope, text):
                return text
            optional = optional or text  # `self.device = device or "cuda"` says it better
        elif device.startswith("cuda") and attribute and class_attributes.has(file, scope, text, node):
            said = ended.value(ast.parse(text, mode="eval").body)
            if said is values.MISSING or same_device(said, device):
                return text
    if optional:
        return optional
    for name, value in values.at_rest(frame.f_locals).items() if frame is not None else ():
        if same_device(value, device) and name.isidentifier() and bound_before(file, scope, name, node):
            return name
    words = (
        _own_attribute(file, scope, device, frame) if frame is not None else _as_said(file, node, scope, device, ended)
    )
    return words or _of_object(file, node, scope, device, frame) or _element(file, node, scope, device, frame)


def _of_object(file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None) -> str:
    """`engine.device`, `accelerator.device`: what the function says for a device elsewhere, of an object it has."""
    if frame is None:
        return ""
    for said in text_index.once(scope, devices_said):
        root: ast.AST = said
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(said, ast.Call):
            if device.startswith("cuda") and _is_asked(file, said, frame):
                return file.flat(said)
            continue
        if root is said or not isinstance(root, ast.Name) or not bound_before(file, scope, root.id, node):
            continue
        if isinstance(said, ast.Attribute) and values.is_tensor(values.evaluate(said.value, frame)):
            continue
        value = values.evaluate(said, frame)
        is_property = value is values.MISSING and isinstance(said, ast.Attribute) and said.attr == "device"
        if same_device(value, device) or (is_property and device.startswith("cuda")):
            return file.flat(said)
    return ""


def _is_asked(file: source.Source, call: ast.Call, frame: types.FrameType) -> bool:
    """`get_device()`: a function of the program's own that is asked for the device, and for nothing else."""
    asked = values.evaluate(call.func, frame)
    return isinstance(asked, types.FunctionType) and "device" in asked.__name__ and asked.__module__ != "torch"


def _as_said(file: source.Source, node: ast.AST, scope: ast.AST, device: str, ended: Ended) -> str:
    """What a function that has ended says for a device elsewhere: `self.home` of `.to(self.home)`, the `d` of the
    comprehension around the place, where another one moves to its own."""
    if scope is file.tree or not device.startswith("cuda"):
        return ""
    unknown = ""
    for said in text_index.once(scope, devices_said):
        root = named_devices.root_of(said)
        if root is None or isinstance(said, ast.Call) or root.id in _TENSORS or function_of(file, said) is not scope:
            continue
        value = ended.value(said)
        if value is not values.MISSING and not same_device(value, device):
            continue  # another card
        given = root.id in bindings.parameters(scope) and not file.find(scope, ("store", root.id))
        if isinstance(said, ast.Name):
            usable = is_comprehended(file, node, said.id)
            usable = usable or (bound_before(file, scope, said.id, node) and not _is_left_by_loop(file, said, node))
        else:
            usable = given or start(said) < start(node)
            usable = usable and (value is not values.MISSING or (isinstance(said, ast.Attribute) and _is_plain(said)))
            if isinstance(said, ast.Attribute) and said.attr == "device" and value is values.MISSING:
                usable = usable and root.id in bindings.parameters(scope)
        if usable and value is not values.MISSING:
            return ast.unparse(said)
        unknown = unknown or (ast.unparse(said) if usable else "")
    return unknown


def _is_plain(said: ast.Attribute) -> bool:
    return isinstance(said.value, ast.Name)


def _is_left_by_loop(file: source.Source, said: ast.Name, node: ast.AST) -> bool:
    """Whether a loop binds a name that does not go around the place: there it is what the last round left."""
    scope, around = function_of(file, node), list(file.ancestors(node))
    for stored in file.find(scope, ("store", said.id)):
        loops = [a for a in file.ancestors(stored) if isinstance(a, (ast.For, ast.AsyncFor, ast.While))]
        if any(not any(loop is each for each in around) for loop in loops):
            return True
    return False


_TENSORS = {"x", "y", "input", "inputs", "other", "like"}
"""Names of tensors rather than of devices: `a.to(x)`."""


def _element(file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None) -> str:
    """`devices[0]`, `self.devices[0]`: an element of a list of devices."""
    if frame is None:
        return ""
    first = next(iter(getattr(getattr(scope, "args", None), "args", [])), None)
    me = first.arg if first is not None and isinstance(file.scope(scope), ast.ClassDef) else ""
    own = values.attributes(frame.f_locals.get(me)) if me else {}
    here = values.at_rest(frame.f_locals)
    named = [(name, value) for name, value in here.items() if bound_before(file, scope, name, node)]
    for text, value in [*named, *((f"{me}.{name}", value) for name, value in own.items())]:
        if isinstance(value, (list, tuple)) and value and all(isinstance(each, (torch.device, str)) for each in value):
            number = next((n for n, each in enumerate(value) if same_device(each, device)), None)
            if number is not None and len(set(map(str, value))) == len(value):  # not the home of each of many
                return f"{text}[{number}]"
    return ""


def _from_local_tensor(
    file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None
) -> str:
    """`pred.device`, of a variable that the function has before."""
    if frame is None:
        return ""
    for name in frame.f_code.co_varnames:
        value = frame.f_locals.get(name)
        if values.is_tensor(value) and str(value.device) == device and _is_tensor_at(file, scope, name, node):
            return f"{name}.device"
    return named_devices.of_list(file, node, scope, device, frame)


def _is_tensor_at(file: source.Source, scope: ast.AST, name: str, node: ast.AST) -> bool:
    """Whether a name is bound at a place, and never to a number: `total = 0.0` before a loop that adds tensors."""
    flow = flow_of(file, scope)
    reaching = flow.reaching_before(node, name) if flow is not None else ()
    numbers = [each for each in reaching if isinstance(each.value, ast.Constant)]
    return bound_before(file, scope, name, node) and not numbers


def _from_local_module(
    file: source.Source, node: ast.AST, scope: ast.AST, device: str, frame: types.FrameType | None
) -> str:
    """`next(model.parameters()).device`, of a module that the function was given."""
    given = bindings.parameters(scope) if frame is not None and isinstance(scope, ast.FunctionDef) else []
    for name in given:
        module = frame.f_locals.get(name) if frame is not None else None
        if values.is_module(module) and name != "self" and not file.find(scope, ("store", name)):
            found = {str(parameter.device) for parameter in module.parameters()}
            if found == {device}:
                return f"next({name}.parameters()).device"
    return ""


def _own_attribute(file: source.Source, scope: ast.AST, device: str, frame: types.FrameType | None) -> str:
    """`self.dev1`: an attribute of the method's object that says a device."""
    first = next(iter(getattr(getattr(scope, "args", None), "args", [])), None)
    if frame is None or first is None or not isinstance(file.scope(scope), ast.ClassDef):
        return ""
    for name, value in values.attributes(frame.f_locals.get(first.arg)).items():
        says = isinstance(value, torch.device) or (isinstance(value, str) and "dev" in name.lower())
        if says and same_device(value, device) and name.isidentifier():
            return f"{first.arg}.{name}"
    return ""


def _from_parameters(file: source.Source, scope: ast.AST, device: str, frames: list[types.FrameType]) -> str:
    """`next(self.parameters()).device`, in a method of a module whose parameters are all on the device."""
    holder = file.scope(scope)
    arguments = getattr(getattr(scope, "args", None), "args", [])
    if not isinstance(holder, ast.ClassDef) or not arguments or getattr(scope, "name", "") == "__init__":
        return ""
    for frame in frames:
        for value in [*values.at_rest(frame.f_locals).values(), *values.at_rest(frame.f_globals).values()]:
            for module in value.modules() if values.is_module(value) else ():
                method = _written(vars(type(module)).get(getattr(scope, "name", "")))
                if type(module).__name__ != holder.name or method is None:
                    continue
                found = {str(parameter.device) for parameter in module.parameters()}
                own = method.__code__.co_filename == file.file and found == {device}
                return f"next({arguments[0].arg}.parameters()).device" if own else ""
    return ""


def _written(method: object) -> types.FunctionType | None:
    """The function that stands in the class, behind a property and decorators that keep what they wrap."""
    if isinstance(method, property):
        method = method.fget
    elif isinstance(method, functools.cached_property):
        method = method.func
    while isinstance(method, types.FunctionType) and "__wrapped__" in vars(method):
        method = vars(method)["__wrapped__"]
    return method if isinstance(method, types.FunctionType) else None


def _shared(file: source.Source, node: ast.AST, device: str, names: dict[str, object]) -> str:
    """A variable of the module."""
    for text in _PREFERRED:
        root, _, attribute = text.partition(".")
        value = names.get(root, values.MISSING)
        if attribute and value is not values.MISSING:
            value = values.get_attribute(value, attribute)
        if same_device(value, device):
            return text
    found = [name for name, value in list(names.items()) if isinstance(value, (torch.device, str))]
    return next((n for n in found if not n.startswith("_") and same_device(names[n], device)), "")


def _names_several_cards(names: dict[str, object]) -> bool:
    """Whether a module has names for different CUDA devices."""
    values_ = [str(value) for value in list(names.values()) if isinstance(value, (torch.device, str))]
    return len({value for value in values_ if value.startswith("cuda")}) > 1


def _from_operand(
    file: source.Source,
    node: ast.AST,
    scope: ast.AST,
    device: str,
    frame: types.FrameType | None,
    others: Sequence[tuple[ast.AST, source.Source]],
) -> str:
    """`x.device`, of a tensor that is where it should be."""
    for other, other_file in others:
        together = other_file is file and file.statement(other) is file.statement(node)
        if other_file is not file or function_of(file, other) is not scope:
            continue
        while isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute) and frame is not None:
            held = values.evaluate(other.func.value, frame)  # `out["kind"]` of `out["kind"].argmax(1)`
            if not isinstance(other.func.value, ast.Call) and not (
                values.is_tensor(held) and str(held.device) == device
            ):
                break
            other = other.func.value
        if not _is_simple(other, together):
            continue
        root = other
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        name = root.id if isinstance(root, ast.Name) else ""
        if _is_tensor_at(file, scope, name, node) or (together and is_comprehended(file, node, name)):
            return f"{file.flat(other)}.device"
    if frame is None:
        return _from_context(file, node, scope)
    here = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    code = frame.f_code
    for name in [*here, *code.co_varnames[: code.co_argcount]]:
        value = frame.f_locals.get(name)
        if values.is_tensor(value) and str(value.device) == device and _is_tensor_at(file, scope, name, node):
            return f"{name}.device"
    return ""


def _from_context(file: source.Source, node: ast.AST, scope: ast.AST) -> str:
    """`x.device`, in a function that has ended: of a tensor whose shape the call reads."""
    read = [n.value for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in ("shape", "size", "dtype")]
    names = [n.id for n in read if isinstance(n, ast.Name) and n.id not in ("torch", "np", "numpy", "self")]
    known = (name for name in names if bound_before(file, scope, name, node) or is_comprehended(file, node, name))
    return next((f"{name}.device" for name in known), "")


def _is_simple(node: ast.AST, together: bool = False) -> bool:
    """`x`, `batch["x"]`, `net.weight`; in the statement itself `grads[k]` as well, whatever k is there."""
    keys = (ast.Constant, ast.Name) if together else ast.Constant
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Subscript) and isinstance(node.slice, keys)):
        node = node.value
    return isinstance(node, ast.Name)
