"""Gradients that autograd refuses by itself, before any operator sees them: the start of a backward pass, what hooks
and custom functions give back, `p.grad = …`.

Under a policy that goes on, each is reported like any other mistake and the gradient is moved; else PyTorch's own error
stands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from locus._bridge import Bridge
    from locus.program.raw_shapes import RawCase


@functools.cache
def install(bridge: Bridge) -> None:
    """Puts itself between the program and autograd, once a process."""
    _watch_roots(bridge)
    _watch_custom_functions(bridge)
    _watch_hooks(bridge)
    bridge.watch_grad(torch.Tensor, functools.partial(_assigned, bridge))


Hook = Callable[..., object]


def _watch_roots(bridge: Bridge) -> None:
    """`y.backward(v)`, `torch.autograd.grad(y, x, grad_outputs=v)`, and the same from several outputs."""
    original = torch.autograd.graph._engine_run_backward

    @functools.wraps(original)
    def run_backward(outputs: Sequence[Any], gradients: Any = None, *arguments: object, **options: object) -> object:
        if type(gradients) is tuple and bridge.policy_state() > 0:
            gradients = tuple(
                _moved(bridge, gradient, output, "backward") if _refused(gradient, output) else gradient
                for gradient, output in zip(gradients, outputs)
            )
        return original(outputs, gradients, *arguments, **options)

    torch.autograd.graph._engine_run_backward = run_backward  # type: ignore[assignment]
    torch.autograd._engine_run_backward = run_backward  # type: ignore[attr-defined, assignment]


def _watch_custom_functions(bridge: Bridge) -> None:
    """What the `backward` of a torch.autograd.Function gives back."""
    owner = torch.autograd.function.BackwardCFunction

    def wrap(original: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(original)
        def apply(self: object, *gradients: object) -> object:
            result = original(self, *gradients)
            return _function_result(bridge, self, gradients, result) if bridge.policy_state() > 0 else result

        return apply

    for name in ("apply", "apply_boxed"):
        if hasattr(owner, name):
            setattr(owner, name, wrap(getattr(owner, name)))

    of_class = torch.autograd.Function.__dict__["apply"]  # written in Python, or in C++ from PyTorch 2.14 on
    forward = torch.autograd.Function.apply

    @functools.wraps(getattr(forward, "__func__", forward))
    def apply(cls: type, *arguments: object, **options: object) -> object:
        if bridge.policy_state() == -1:
            return of_class.__get__(None, cls)(*arguments, **options)
        number = bridge.next_node()
        result = of_class.__get__(None, cls)(*arguments, **options)
        bridge.note_node(number)
        return result

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment, arg-type]


def _function_result(bridge: Bridge, function: Any, gradients: tuple[object, ...], result: object) -> object:
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    needed = [number for number, needs in enumerate(function.needs_input_grad) if needs]
    edges = [edge for edge in function.next_functions if edge[0] is not None]
    if len(needed) != len(edges):
        return result
    every = [g for group in gradients for g in (group if isinstance(group, list) else [group])]
    incoming = [g for g in every if isinstance(g, torch.Tensor)]
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


def _watch_hooks(bridge: Bridge) -> None:
    """What hooks on tensors and modules give back. A hook is wrapped when it is registered during a watched time."""
    register: Callable[..., RemovableHandle] = torch.Tensor.register_hook

    @functools.wraps(register)
    def register_hook(self: torch.Tensor, hook: Hook) -> RemovableHandle:
        return register(self, _tensor_hook(bridge, hook) if bridge.policy_state() != -1 and callable(hook) else hook)

    torch.Tensor.register_hook = register_hook
    for name, place in (("register_full_backward_hook", 1), ("register_full_backward_pre_hook", 1)):
        _watch_module_hooks(bridge, name, place)


def _watch_module_hooks(bridge: Bridge, name: str, place: int) -> None:
    register: Callable[..., RemovableHandle] = getattr(torch.nn.Module, name)

    @functools.wraps(register)
    def register_hook(self: torch.nn.Module, hook: Hook, *arguments: object, **options: object) -> RemovableHandle:
        if bridge.policy_state() != -1 and callable(hook):
            hook = _module_hook(bridge, hook, place)
        return register(self, hook, *arguments, **options)

    setattr(torch.nn.Module, name, register_hook)


def _tensor_hook(bridge: Bridge, hook: Hook) -> Hook:
    @_like(hook)
    def watched(gradient: torch.Tensor) -> object:
        result = hook(gradient)
        if bridge.policy_state() > 0 and _changes_type(result, gradient):
            return _moved(bridge, result, gradient, _name(hook))
        return result

    return watched


def _module_hook(bridge: Bridge, hook: Hook, place: int) -> Hook:
    @_like(hook)
    def watched(*arguments: Any) -> object:
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


def _like(hook: Hook) -> Callable[[Hook], Hook]:
    """functools.wraps, for things that may lack a name."""
    return functools.wraps(hook, updated=())


def _name(hook: Hook) -> str:
    name = getattr(hook, "__name__", type(hook).__name__)
    return "a hook" if name == "<lambda>" else name


def _changes_type(result: object, original: object) -> TypeGuard[torch.Tensor]:
    """PyTorch compares device types here; from one CUDA device to another passes."""
    if not isinstance(result, torch.Tensor) or not isinstance(original, torch.Tensor):
        return False
    return result.device.type != original.device.type


def _refused(gradient: object, output: object) -> bool:
    """Whether autograd refuses a gradient of this output; 0-dim ones it moves itself."""
    if not isinstance(gradient, torch.Tensor) or not isinstance(output, torch.Tensor):
        return False
    return gradient.device != output.device and gradient.dim() > 0


def _moved(bridge: Bridge, gradient: torch.Tensor, tensor: torch.Tensor, op: str) -> torch.Tensor:
    error = f"invalid gradient at index 0 - expected device {tensor.device} but got {gradient.device}"
    return _answer(bridge, gradient, tensor, str(tensor.device), op, error)


def _assigned(bridge: Bridge, tensor: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """What to assign for `tensor.grad = gradient`."""
    if gradient.shape != tensor.shape or gradient.is_meta or tensor.is_meta:
        return gradient  # wrong in another way too: PyTorch's own words
    error = f"attempting to assign a gradient on {gradient.device} to a tensor on {tensor.device}"
    return _answer(bridge, gradient, tensor, str(tensor.device), "grad", error)


def _answer(
    bridge: Bridge, gradient: torch.Tensor, tensor: torch.Tensor | None, device: str, op: str, error: str
) -> torch.Tensor:
    """The gradient where it belongs, or as it was where the program means to get the error."""
    operands = [(gradient, "gradient", True)]
    if tensor is not None:
        operands.append((tensor, "output" if op == "backward" else "tensor" if op == "grad" else "grad_output", False))
    raw: RawCase = {
        "kind": "gradient", "overload": op, "device": device, "error": error,
        "operands": [{"argument": argument, "position": number, "index": -1, "tensor": value, "odd": odd,
                      "rule": "same", "written": False} for number, (value, argument, odd) in enumerate(operands)],
    }  # fmt: skip
    target = bridge.report_outside(raw)
    return gradient if target is None else bridge.move_unseen(gradient, device)
