"""The cases: calls with operands on two devices, made of PyTorch's own databases of samples, in a fixed order.

A case is known by its key (kind, entry of the database, dtype, sample, operand, what was moved) and by the shapes of
its tensors, so that another machine or version of PyTorch meets the same ones. Nothing here runs a case: that is up to
who goes through them.
"""

from __future__ import annotations

import copy
import itertools
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Untyped = Any
"""What PyTorch's databases of tests hold and give: they have no types."""

KINDS = ("made", "call", "inplace", "out", "backward", "module", "optimizer")
DTYPES = ("float32", "bfloat16", "int64", "complex64", "bool")
"""Those that a table has unless somebody asks for others."""
HOME = "cuda:0"

MADE_SAMPLES = 4
"""How many samples of each operator are made on the device."""

_USUAL = ("float32", "int64")
_LAST_SAMPLE = 60
_FEW = 2
_MOST_TENSORS = 12


class Case(NamedTuple):
    """One call, ready to be made."""

    dtype: str
    sample: int
    operand: int
    moved: str
    shapes: str
    call: Callable[[], Untyped]


class Entry(NamedTuple):
    """One entry of a database, and its cases."""

    kind: str
    name: str
    variant: str
    cases: Callable[[], Iterator[Case]]


def prepare() -> Untyped:
    """PyTorch, with its test utilities ready to be imported: they warn, and want a module that is not always there."""
    warnings.simplefilter("ignore")
    try:
        import expecttest  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = stub = types.ModuleType("expecttest")
        stub.TestCase = object  # type: ignore[attr-defined]
    import torch

    torch.set_num_threads(1)
    return torch


def entries(dtypes: tuple[str, ...] = DTYPES) -> list[Entry]:
    """Every entry of PyTorch's databases of operators, modules and optimizers, kind by kind."""
    import torch
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db
    from torch.testing._internal.opinfo import core

    for module in (common_utils, core):
        if hasattr(module, "extract_test_fn"):  # looks through the stack for a test, at every sample; there is none
            module.extract_test_fn = lambda: None  # type: ignore[attr-defined]
    found = []
    for kind, make in zip(KINDS, (_made, _calls, _in_place, _outs, _backwards)):
        for op in op_db:
            if "jiterator" not in op.name and "sparse" not in op.name:
                found.append(Entry(kind, op.name, op.variant_test_name, _bound(make, op, torch, dtypes)))
    if "float32" in dtypes:
        found += [Entry("module", info.name, "", _bound(_modules, info, torch)) for info in module_db]
        found += [Entry("optimizer", info.name, "", _bound(_optimizers, info, torch)) for info in optim_db]
    return found


def _bound(make: Callable[..., Iterator[Case]], *given: Untyped) -> Callable[[], Iterator[Case]]:
    return lambda: make(*given)


def flatten(value: Untyped) -> tuple[list[Untyped], Untyped]:
    """(leaves, how to put them together again)"""
    from torch.utils._pytree import tree_flatten

    return tree_flatten(value)


def _unflatten(leaves: list[Untyped], spec: Untyped) -> Untyped:
    from torch.utils._pytree import tree_unflatten

    return tree_unflatten(leaves, spec)


def _on(device: str | None, leaf: Untyped, grad: bool) -> Untyped:
    """A fresh leaf tensor there, or where it is."""
    fresh = leaf.detach().clone()
    return (fresh if device is None else fresh.to(device)).requires_grad_(grad)


def _shapes(tensors: list[Untyped]) -> str:
    return "/".join("x".join(map(str, t.shape)) or "." for t in tensors)


def _placements(count: int) -> Iterator[tuple[int, str, list[str]]]:
    """(operand, moved, devices): each tensor alone on the CPU, then each alone on the device."""
    for operand, moved in itertools.product(range(count), ("this", "others")):
        yield operand, moved, ["cpu" if (i == operand) == (moved == "this") else HOME for i in range(count)]


class _Sample:
    """One sample of an operator: its leaves, which of them are tensors, and how to call with other leaves."""

    def __init__(self, sample: Untyped):
        import torch

        self.leaves, self.spec = flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.shapes = _shapes([self.leaves[i] for i in self.tensors])
        self.plain = all(self.leaves[i].layout == torch.strided for i in self.tensors)
        self.input_is_tensor = isinstance(sample.input, torch.Tensor)
        self.process = getattr(sample, "output_process_fn_grad", None)

    def called(self, function: Callable[..., Untyped], devices: Sequence[str | None]) -> Untyped:
        """What the function gives with the tensors on these devices; None: where the sample has them."""
        value, args, kwargs, _ = self.placed(devices)
        return function(value, *args, **kwargs)

    def placed(
        self, devices: Sequence[str | None], grad: bool = False
    ) -> tuple[Untyped, Untyped, Untyped, list[Untyped]]:
        """(input, args, kwargs, tensors) with the tensors on these devices."""
        leaves = list(self.leaves)
        for i, device in zip(self.tensors, devices):
            leaves[i] = _on(device, leaves[i], grad and leaves[i].requires_grad)
        return (*_unflatten(leaves, self.spec), [leaves[i] for i in self.tensors])


def _samples(op: Untyped, dtype: Untyped, grad: bool, wanted: int, at_least: int) -> Iterator[tuple[int, _Sample]]:
    """The first samples with enough tensors, with their numbers."""
    taken = 0
    inputs = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for index, raw in enumerate(itertools.islice(inputs, _LAST_SAMPLE)):
        sample = _Sample(raw)
        if not at_least <= len(sample.tensors) <= _MOST_TENSORS or not sample.plain:
            continue
        taken += 1
        yield index, sample
        if taken >= wanted:
            return


def _have(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> list[str]:
    """Those of the dtypes that the operator has on a card."""
    have = op.supported_dtypes("cuda")
    return [dtype for dtype in dtypes if getattr(torch, dtype) in have]


def _made(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Plain calls of samples that are made on the device: their device arguments say so, and what they have on the CPU
    on purpose stays there."""
    have = sorted((str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cuda")), key=str)
    dtype = next((d for d in (*_USUAL, *have) if d in have), None)
    if dtype is None or (dtype in DTYPES and dtype not in dtypes):
        return
    taken = 0
    for index, raw in enumerate(op.sample_inputs("cuda", getattr(torch, dtype), requires_grad=False)):
        if index > _LAST_SAMPLE or taken >= MADE_SAMPLES:
            return
        sample = _Sample(raw)
        if 2 <= len(sample.tensors) <= _MOST_TENSORS:
            taken += 1
            for operand, moved, devices in _placements(len(sample.tensors)):
                moves = [device if device == "cpu" else None for device in devices]
                yield Case(dtype, index, operand, moved, sample.shapes, _bound(sample.called, op.op, moves))


def _calls(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Plain calls in several dtypes; in the usual one, the samples after those that were made there."""
    for dtype in _have(op, torch, dtypes):
        wanted, skip = (4, MADE_SAMPLES) if dtype == "float32" else (_FEW, 0)
        for index, sample in itertools.islice(_samples(op, getattr(torch, dtype), False, wanted + skip, 2), skip, None):
            for operand, moved, devices in _placements(len(sample.tensors)):
                yield Case(dtype, index, operand, moved, sample.shapes, _bound(sample.called, op.op, devices))


def _first(op: Untyped, torch: Untyped, dtypes: tuple[str, ...], common: tuple[str, ...]) -> list[str]:
    """One dtype of the common ones, and whatever was asked for beyond those of every table."""
    have = _have(op, torch, dtypes)
    return [d for d in common if d in have][:1] + [d for d in have if d not in DTYPES]


def _in_place(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> Iterator[Case]:
    variant = op.get_inplace()
    if variant is None:
        return
    for dtype in _first(op, torch, dtypes, ("float32", "int64", "bool")):
        for index, sample in _samples(op, getattr(torch, dtype), False, 3, 2):
            if not sample.input_is_tensor:
                continue  # nothing to be written to
            for operand, moved, devices in _placements(len(sample.tensors)):
                yield Case(dtype, index, operand, moved, sample.shapes, _bound(sample.called, variant, devices))


def _outs(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Results written into tensors on the other device, then operands on the other device; by turns right and wrong."""
    if not op.supports_out:
        return
    for dtype in _first(op, torch, dtypes, _USUAL):
        for index, sample in _samples(op, getattr(torch, dtype), False, 2, 1):
            yield from _out_cases(op, torch, dtype, index, sample)


def _out_cases(op: Untyped, torch: Untyped, dtype: str, index: int, sample: _Sample) -> Iterator[Case]:
    count = len(sample.tensors)
    value, args, kwargs, _ = sample.placed(["cpu"] * count)
    try:
        result = op.op(value, *args, **kwargs)
    except Exception:
        return  # the sample does not work on the CPU either
    single = isinstance(result, torch.Tensor)
    results = [result] if single else result
    if not isinstance(results, (tuple, list)) or not all(isinstance(r, torch.Tensor) for r in results):
        return

    def call(devices: list[str], targets: list[str]) -> Untyped:
        value, args, kwargs, _ = sample.placed(devices)
        out = [torch.empty_like(r, device=d) for r, d in zip(results, targets)]
        return op.op(value, *args, **kwargs, out=out[0] if single else tuple(out))

    home, here = [HOME] * len(results), ["cpu"] * len(results)

    def case(operand: int, moved: str, devices: list[str], targets: list[str]) -> Case:
        return Case(dtype, index, operand, moved, sample.shapes, lambda: call(devices, targets))

    yield case(-1, "results", [HOME] * count, here)
    yield case(-1, "operands", ["cpu"] * count, home)
    if len(results) > 1:
        yield case(-1, "first result", [HOME] * count, [*here[:1], *home[1:]])
    if count > 1:
        for operand, moved, devices in _placements(count):
            yield case(operand, moved, devices, home)


def _backwards(op: Untyped, torch: Untyped, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """A gradient on the other device; and, where the forward call is legal with mixed devices, its backward pass."""
    if not op.supports_autograd:
        return
    for dtype in _first(op, torch, dtypes, ("float32",)):
        inputs = op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=True)
        taken = 0
        for index, raw in enumerate(itertools.islice(inputs, 20)):
            sample = _Sample(raw)
            if not 1 <= len(sample.tensors) <= _MOST_TENSORS or not sample.plain:
                continue
            yield from _backward_cases(op, torch, dtype, index, sample)
            taken += 1
            if taken == _FEW:
                break


def _backward_cases(op: Untyped, torch: Untyped, dtype: str, index: int, sample: _Sample) -> Iterator[Case]:
    count = len(sample.tensors)

    def differentiate(devices: list[str], gradient_device: str | None) -> Untyped:
        value, args, kwargs, tensors = sample.placed(devices, grad=True)
        result = op.op(value, *args, **kwargs)
        if sample.process is not None:
            result = sample.process(result)
        outputs = [t for t in flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        inputs = [t for t in tensors if t.requires_grad]
        if not outputs or not inputs:
            return []
        gradients = [torch.ones_like(t, device=gradient_device or t.device) for t in outputs]
        return torch.autograd.grad(outputs, inputs, gradients, allow_unused=True)

    def case(operand: int, moved: str, devices: list[str], gradient: str | None) -> Case:
        return Case(dtype, index, operand, moved, sample.shapes, lambda: differentiate(devices, gradient))

    yield case(-1, "gradient", [HOME] * count, "cpu")
    if count > 1:
        for operand, moved, devices in _placements(count):
            yield case(operand, moved, devices, None)


def _modules(info: Untyped, torch: Untyped) -> Iterator[Case]:
    """A module on the device with an input on the CPU, one on the CPU with inputs there, a parameter left behind."""
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
    for index, sample in enumerate(itertools.islice(samples, 5)):
        if sample.forward_input is not None:
            made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            yield from _module_cases(torch, index, made, sample.forward_input)


def _module_cases(torch: Untyped, index: int, made: Untyped, forward: Untyped) -> Iterator[Case]:
    leaves, spec = flatten((forward.args, forward.kwargs))
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    names = [name for name, _ in itertools.chain(made.named_parameters(), made.named_buffers())][:10]
    shapes = _shapes([leaves[i] for i in tensors]) + "|" + str(len(names))

    def call(module_device: str, devices: list[str], left: str | None) -> Untyped:
        module = copy.deepcopy(made).to(module_device)
        if left is not None:
            owner = module.get_submodule(left.rpartition(".")[0])
            name = left.rpartition(".")[2]
            there = owner._parameters if name in owner._parameters else owner._buffers
            moved = there[name].detach().cpu()
            there[name] = torch.nn.Parameter(moved, False) if name in owner._parameters else moved
        placed = list(leaves)
        for i, device in zip(tensors, devices):
            placed[i] = _on(device, placed[i], False)
        args, kwargs = _unflatten(placed, spec)
        return module(*args, **kwargs)

    def case(number: int, moved: str, module: str, devices: list[str], left: str | None = None) -> Case:
        return Case("float32", index, number, moved, shapes, lambda: call(module, devices, left))

    count = len(tensors)
    yield case(-1, "inputs", HOME, ["cpu"] * count)
    yield case(-1, "module", "cpu", [HOME] * count)
    for number, name in enumerate(names):
        yield case(number, "parameter", HOME, [HOME] * count, name)
    if count > 1:
        for operand, moved, devices in _placements(count):
            yield case(operand, moved, HOME, devices)


def _optimizers(info: Untyped, torch: Untyped) -> Iterator[Case]:
    """State that stayed on the CPU when the parameters moved."""
    for index, config in enumerate(itertools.islice(info.optim_inputs_func("cuda"), 14)):
        for number, options in enumerate(({"foreach": False}, {"foreach": True}, {"fused": True})):
            if "fused" in options and not info.supports_fused_on:
                continue
            for moved in ("all", "scalars", "tensors"):
                call = _bound(_step, torch, info, dict(config.kwargs, **options), moved)
                yield Case("float32", index, number, f"state: {moved}", config.desc or "-", call)


def _step(torch: Untyped, info: Untyped, options: dict[str, Untyped], moved: str) -> Untyped:
    """Two steps of an optimizer whose state is taken to the CPU after each; its parameters."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.ones(*shape, device=HOME)) for shape in ((3, 2), (2,))]
    optimizer = info.optim_cls(parameters, **options)
    for _ in range(2):
        for p in parameters:
            p.grad = torch.ones_like(p)
            if info.optim_cls is torch.optim.SparseAdam:
                p.grad = p.grad.to_sparse()
        optimizer.step(parameters[0].sum) if info.step_requires_closure else optimizer.step()
        for state in optimizer.state.values():
            for name, value in state.items():
                if not isinstance(value, torch.Tensor):
                    continue
                if moved == "all" or (value.dim() == 0) == (moved == "scalars"):
                    state[name] = value.cpu()
    return parameters
