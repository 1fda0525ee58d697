"""Compares a call on a simulated device with the same call on the CPU: bit for bit, and call by call where needed.

PyTorch's Python and C++ layers choose other operators for CUDA tensors at times. Then the whole results need not agree,
but each operator that ran must give what the same operator gives on the CPU: `SameCalls` watches them one by one.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE = torch.device("cuda:0")


class Different(AssertionError):
    """What the two results differ in."""


def tensors_in(value):
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def bits(t):
    """The memory of a dense tensor's elements, in order."""
    flat = torch.empty(t.numel(), dtype=t.dtype)
    flat.copy_((t.detach().clone() if t._is_zerotensor() else t.detach()).resolve_conj().resolve_neg().reshape(-1))
    return flat.view(torch.uint8)


def parts_of(t):
    """The dense tensors that a sparse one is made of."""
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [t.ccol_indices(), t.row_indices(), t.values()]
    return None


def compare_tensors(there, here, where="result"):
    if there.device != DEVICE and not (there.device.type == here.device.type == "cpu"):
        raise Different(f"{where}: device {there.device}")
    for what in ("dtype", "shape", "layout"):
        if getattr(there, what) != getattr(here, what):
            raise Different(f"{where}: {what} {getattr(there, what)} is not {getattr(here, what)}")
    if there.is_nested or here.is_nested:
        return compare(list(there.unbind()), list(here.unbind()), where)
    parts = parts_of(there)
    if parts is not None:
        return compare(parts, parts_of(here), where)
    if there.layout != torch.strided:
        raise Different(f"{where}: layout {there.layout} can't be compared")
    if there.stride() != here.stride():
        raise Different(f"{where}: strides {there.stride()} are not {here.stride()}")
    for flag in ("is_conj", "is_neg"):
        if getattr(there, flag)() != getattr(here, flag)():
            raise Different(f"{where}: {flag}")
    ours, its = bits(there), bits(here)
    if not torch.equal(ours, its):
        different = (ours != its).nonzero().flatten()[:1].item() // max(there.element_size(), 1)
        flat = [t.detach().resolve_conj().resolve_neg().cpu().reshape(-1) for t in (there, here)]
        raise Different(
            f"{where}: element {different} is {flat[0][different].item()!r}, not {flat[1][different].item()!r}"
        )


def compare(there, here, where="result"):
    """Raises Different unless the two results are the same but for the device."""
    (ours, spec), (its, other) = tree_flatten(there), tree_flatten(here)
    if len(ours) != len(its) or str(spec) != str(other):
        raise Different(f"{where}: {spec} is not {other}")
    for number, (a, b) in enumerate(zip(ours, its)):
        name = f"{where} {number}" if len(ours) > 1 else where
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            raise Different(f"{name}: {type(a).__name__} is not {type(b).__name__}")
        if isinstance(a, torch.Tensor):
            compare_tensors(a, b, name)
        elif isinstance(a, torch.device):
            continue
        elif (
            isinstance(a, (bool, int, float, complex, str, torch.Size, torch.dtype))
            and a != b
            and not (a != a and b != b)
        ):
            raise Different(f"{name}: {a!r} is not {b!r}")


def shared_with(result, operands):
    """For each tensor of a result: which operand's memory it shares. None where that can't be asked."""

    def memory(t):
        plain = t.layout == torch.strided and not t.is_nested and not t._is_zerotensor() and t.numel()
        return t.untyped_storage().data_ptr() if plain else None

    known = [memory(t) for t in operands]
    return [
        known.index(memory(t)) if memory(t) is not None and memory(t) in known else None for t in tensors_in(result)
    ]


def twin(t, device):
    """A copy with the same strides, and the same sharing of elements, on another device."""
    t = t.detach()
    if t.layout == torch.strided and t.is_conj():
        return twin(t.conj(), device).conj()
    if t.layout == torch.strided and t.is_neg():
        return torch._neg_view(twin(torch._neg_view(t), device))
    if t.layout != torch.strided or t.is_nested or t.numel() == 0:
        return t.to(device, copy=True)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
    memory = t.as_strided((extent,), (1,)).to(device, copy=True)
    return memory.as_strided(t.shape, t.stride(), 0)


class SameCalls(TorchDispatchMode):
    """Runs each operator once more on CPU copies of its operands, and compares results and written operands."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.alone = set()
        """Operators that have no kernel for the CPU."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves, spec = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        on_device = any(t.is_cuda for t in tensors)
        unset = function.overloadpacket.__name__ in UNSET or function.namespace != "aten"
        if not on_device or unset or any(t.is_nested for t in tensors):
            return function(*args, **kwargs)
        copies = {}
        for t in tensors:
            if id(t) not in copies:
                copies[id(t)] = twin(t, "cpu") if t.is_cuda else t.detach().clone()

        def here(leaf):
            if isinstance(leaf, torch.Tensor):
                return copies[id(leaf)]
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        state = torch.get_rng_state()
        result = function(*args, **kwargs)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        host_args, host_kwargs = tree_unflatten([here(leaf) for leaf in leaves], spec)
        try:
            expected = function(*host_args, **host_kwargs)
        except NotImplementedError:
            self.alone.add(function.overloadpacket.__name__)
            return result
        finally:
            torch.set_rng_state(after)
        self.calls += 1
        compare(result, expected, str(function))
        for t in tensors:
            if t.is_cuda and t.layout == torch.strided:
                compare_tensors(t, copies[id(t)], f"an operand of {function}")
        return result


UNSET = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
    "_to_copy",
    "copy_",
    "resize_",
    "record_stream",
    "_copy_from",
    "_fused_sdp_choice",
    "_pin_memory",
    "is_pinned",
}
"""Operators whose result is not set, or whose point is the other device."""


def to_device(value):
    """The same leaves on the device; what needs a gradient there needs one here."""

    def move(leaf):
        return twin(leaf, DEVICE).requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(move, value)


def fresh(value):
    def copy(leaf):
        return twin(leaf, "cpu").requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(copy, value)
