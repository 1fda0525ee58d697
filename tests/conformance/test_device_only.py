"""Operators that PyTorch has for a card only: each refuses by name with the way out, or Locus brings it along."""

import torch
from simulated import simulated

CUDA = "cuda:0"
DENSE = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
OTHER = ("SparseCPU", "SparseCsrCPU", "NestedTensorCPU")


def operand_for(argument):
    """Something that the operator's schema takes."""
    kind = str(argument.type)
    if "List[Tensor]" in kind or "List[Optional[Tensor]]" in kind:
        return [torch.ones(2, 2, device=CUDA)]
    if "Tensor" in kind:
        return torch.ones(2, 2, device=CUDA)
    if argument.name == "device":
        return torch.device(CUDA)
    if argument.has_default_value():
        return argument.default_value
    if kind.startswith("Optional["):
        return None
    if kind.startswith("List["):
        return {"int": [1, 1], "number": [1], "float": [1.0], "bool": [False] * (argument.N or 3)}[kind[5:-1]]
    if kind == "Stream":
        return torch.cuda.current_stream()
    return {"int": 1, "number": 1, "float": 1.0, "bool": False, "str": ""}[kind]


def called(name):
    """What came of calling the operator with any operands: None, or an exception."""
    base, _, overload = name.removeprefix("aten::").partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
    given = {a.name: operand_for(a) for a in operator._schema.arguments}
    positional = [given.pop(a.name) for a in operator._schema.arguments if not a.kwarg_only]
    try:
        operator(*positional, **given)
    except Exception as error:
        return error
    return None


def without_kernel(*keys):
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        known = hasattr(torch.ops.aten, name.removeprefix("aten::").partition(".")[0])
        if name.startswith("aten::") and "mps" not in name and known:  # an old PyTorch lacks some that Locus offers
            if not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys):
                yield name


@simulated(devices=1)
def test_each_refuses_by_name():
    from locus._load import load_bridge

    kinds = load_bridge().operator_kinds()
    refused, brought = 0, 0
    for name in without_kernel(*DENSE, *OTHER):
        error = called(name)
        if kinds.get(name.removeprefix("aten::")) == "written":
            # With operands that make no sense: any error of PyTorch's, but no end of the process.
            assert error is None or isinstance(error, (RuntimeError, IndexError)), (name, error)
            brought += 1
            continue
        assert isinstance(error, NotImplementedError), (name, error)
        words = str(error)
        assert words.startswith(f"locus: the operator '{name}' is not simulated") and "x.cpu()" in words, words
        refused += 1
    assert refused >= 50 and brought >= 10, (refused, brought)


@simulated(devices=1)
def test_operators_for_sparse_and_nested_tensors_refuse_dense_ones():
    found = 0
    for name in without_kernel(*DENSE):
        if not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in OTHER):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "BackendSelect"):
            continue  # makes a tensor of that kind
        error = called(name)
        assert isinstance(error, NotImplementedError), (name, error)
        assert str(error).startswith(f"Could not run '{name}' with arguments from the 'CUDA' backend"), str(error)
        found += 1
    assert found >= 20, found
