"""Gradients that autograd refuses by itself, before any operator sees them: the start of a backward pass, what hooks
and custom functions give back, `p.grad = …`.

Under a policy that goes on, each is reported like any other mistake and the gradient is moved; else PyTorch's own error
stands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch


@functools.cache
def install(bridge: Any) -> None:
    """Puts itself between the program and autograd, once a process."""
    _watch_roots(bridge)
    _watch_custom_functions(bridge)
    _watch_hooks(bridge)
    bridge.watch_grad(torch.Tensor, functools.partial(_assigned, bridge))


def _watch_roots(bridge: Any) -> None:
    """`y.backward(v)`, `torch.autograd.grad(y, x, grad_outputs=v)`, and the same from several outputs."""
    original = torch.autograd.graph._engine_run_backward

    @functools.wraps(original)
    def run_backward(outputs: Sequence[Any], gradients: Any = None, *arguments: Any, **options: Any) -> Any:
        if type(gradients) is tuple and bridge.policy_state() > 0:
            gradients = tuple(
                _moved(bridge, gradient, output, "backward") if _refused(gradient, output) else gradient
                for gradient, output in zip(gradients, outputs)
            )
        return original(outputs, gradients, *arguments, **options)

    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = run_backward


def _watch_custom_functions(bridge: Any) -> None:
    """What the `backward` of a torch.autograd.Function gives back."""
    owner = torch.autograd.function.BackwardCFunction

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def apply(self: Any, *gradients: Any) -> Any:
            result = original(self, *gradients)
            return _function_result(bridge, self, gradients, result) if bridge.policy_state() > 0 else result

        return apply

    for name in ("apply", "apply_boxed"):
        if hasattr(owner, name):
            setattr(owner, name, wrap(getattr(owner, name)))

    of_class = torch.autograd.Function.__dict__["apply"]  # written in Python, or in C++ from PyTorch 2.14 on
    forward = torch.autograd.Function.apply

    @functools.wraps(getattr(forward, "__func__", forward))
    def apply(cls: Any, *arguments: Any, **options: Any) -> Any:
        if bridge.policy_state() == -1:
            return of_class.__get__(None, cls)(*arguments, **options)
        number = bridge.next_node()
        result = of_class.__get__(None, cls)(*arguments, **options)
        bridge.note_node(number)
        return result

    torch.autograd.Function.apply = classmethod(apply)


def _function_result(bridge: Any, function: Any, gradients: Any, result: Any) -> Any:
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    needed = [number for number, needs in enumerate(function.needs_input_grad) if needs]
    edges = [edge for edge in function.next_functions if edge[0] is not None]
    if len(needed) != len(edges):
        return result
    incoming = [g for group in gradients for g in (group if isinstance(group, list) else [group])]
    incoming = [g for g in incoming if isinstance(g, torch.Tensor)]
    changed = False
    for number, (node, place) in zip(needed, edges):
        metadata = getattr(node, "_input_metadata", None)
        given = results[number] if number < len(results) else None
        if metadata is None or not isinstance(given, torch.Tensor) or given.dim() == 0:  # 0-dim ones autograd moves
            continue
        device = metadata[place].device
        if device == given.device:
            continue
        other = next((g for g in incoming if g.device == device), None)
        error = (
            f"Function {type(function).__name__} returned an invalid gradient at index {number} - expected device "
            f"{device} but got {given.device}"
        )
        op = f"{type(function).__name__.removesuffix('Backward')}.backward"
        moved = _answer(bridge, given, other, str(device), op, error)
        if moved is not given:
            results[number], changed = moved, True
    if not changed:
        return result
    return tuple(results) if isinstance(result, (tuple, list)) else results[0]


def _watch_hooks(bridge: Any) -> None:
    """What hooks on tensors and modules give back. A hook is wrapped when it is registered during a watched time."""
    register = torch.Tensor.register_hook

    @functools.wraps(register)
    def register_hook(self: Any, hook: Any) -> Any:
        return register(self, _tensor_hook(bridge, hook) if bridge.policy_state() != -1 and callable(hook) else hook)

    torch.Tensor.register_hook = register_hook
    for name, place in (("register_full_backward_hook", 1), ("register_full_backward_pre_hook", 1)):
        _watch_module_hooks(bridge, name, place)


def _watch_module_hooks(bridge: Any, name: str, place: int) -> None:
    register = getattr(torch.nn.Module, name)

    @functools.wraps(register)
    def register_hook(self: Any, hook: Any, *arguments: Any, **options: Any) -> Any:
        if bridge.policy_state() != -1 and callable(hook):
            hook = _module_hook(bridge, hook, place)
        return register(self, hook, *arguments, **options)

    setattr(torch.nn.Module, name, register_hook)


def _tensor_hook(bridge: Any, hook: Any) -> Any:
    @_like(hook)
    def watched(gradient: Any) -> Any:
        result = hook(gradient)
        if bridge.policy_state() > 0 and _changes_type(result, gradient):
            return _moved(bridge, result, gradient, _name(hook))
        return result

    return watched


def _module_hook(bridge: Any, hook: Any, place: int) -> Any:
    @_like(hook)
    def watched(*arguments: Any) -> Any:
        result = hook(*arguments)
        if result is None or bridge.policy_state() <= 0:
            return result
        given = arguments[place] if len(arguments) > place else ()
        results = list(result) if isinstance(result, tuple) else [result]
        originals = given if isinstance(given, tuple) else (given,)
        if len(results) != len(originals) or not any(map(_changes_type, results, originals)):
            return result
        moved = tuple(
            _moved(bridge, new, old, _name(hook)) if _changes_type(new, old) else new
            for new, old in zip(results, originals)
        )
        return moved if isinstance(result, tuple) else moved[0]

    return watched


def _like(hook: Any) -> Any:
    """functools.wraps, for things that may lack a name."""
    return functools.wraps(hook, updated=())


def _name(hook: Any) -> str:
    name = getattr(hook, "__name__", type(hook).__name__)
    return "a hook" if name == "<lambda>" else name


def _changes_type(result: Any, original: Any) -> bool:
    """PyTorch compares device types here; from one CUDA device to another passes."""
    tensors = isinstance(result, torch.Tensor) and isinstance(original, torch.Tensor)
    return tensors and result.device.type != original.device.type


def _refused(gradient: Any, output: Any) -> bool:
    """Whether autograd refuses a gradient of this output; 0-dim ones it moves itself."""
    if not isinstance(gradient, torch.Tensor) or not isinstance(output, torch.Tensor):
        return False
    return gradient.device != output.device and gradient.dim() > 0


def _moved(bridge: Any, gradient: Any, tensor: Any, op: str) -> Any:
    error = f"invalid gradient at index 0 - expected device {tensor.device} but got {gradient.device}"
    return _answer(bridge, gradient, tensor, str(tensor.device), op, error)


def _assigned(bridge: Any, tensor: Any, gradient: Any) -> Any:
    """What to assign for `tensor.grad = gradient`."""
    if gradient.shape != tensor.shape or gradient.is_meta or tensor.is_meta:
        return gradient  # wrong in another way too: PyTorch's own words
    error = f"attempting to assign a gradient on {gradient.device} to a tensor on {tensor.device}"
    return _answer(bridge, gradient, tensor, str(tensor.device), "grad", error)


def _answer(bridge: Any, gradient: Any, tensor: Any, device: str, op: str, error: str) -> Any:
    """The gradient where it belongs, or as it was where the program means to get the error."""
    operands = [(gradient, "gradient", True)]
    if tensor is not None:
        operands.append((tensor, "output" if op == "backward" else "tensor" if op == "grad" else "grad_output", False))
    raw = {
        "kind": "gradient", "overload": op, "device": device, "error": error,
        "operands": [{"argument": argument, "position": number, "index": -1, "tensor": value, "odd": odd,
                      "rule": "same", "written": False} for number, (value, argument, odd) in enumerate(operands)],
    }  # fmt: skip
    target = bridge.report_outside(raw)
    return gradient if target is None else bridge.move_unseen(gradient, device)
