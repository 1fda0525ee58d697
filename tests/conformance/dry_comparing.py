"""One call of a sample with values and without, on the same simulated device: results must have one geometry."""

import torch
from comparing import Different, fresh, shared_with, tensors_in, to_device
from locus._load import load_bridge

BY_VALUES = (
    "argwhere", "nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave",
    "__getitem__", "index_put", "combinations", "masked.median", "nn.functional.one_hot",
)  # fmt: skip
"""Operators whose results have as many elements as the values say."""

ASKS_VALUES = {
    "allclose": "gives a Python bool, of values",
    "equal": "gives a Python bool, of values",
    "item": "gives a Python number",
    "cov": "refuses weights by their values",
    "linalg.eig": "its gradient refuses by values",
    "linalg.lstsq": "refuses a matrix by its rank",
    "LBFGS": "stops by values, and has so much state",
}
OTHER = {
    "fft.ifft": "strides of an out= that is resized follow the values' kernel",
    "fft.ihfft": "strides of an out= that is resized follow the values' kernel",
    "sparse.mm": "reductions by rows are refused by name",
    "svd_lowrank": "strides of an intermediate result follow the values' kernel",
    "pca_lowrank": "strides of an intermediate result follow the values' kernel",
    "nn.FractionalMaxPool3d": "a wrong type of samples is refused by the kernel, not by the shape rule",
}


def reason_for(name, variant, how, detail):
    """Why a sample differs; None where it must not."""
    for table in (ASKS_VALUES, OTHER):
        if name in table:
            return f"{name}: {table[name]}"
    if name in BY_VALUES and "shape" in detail:
        return f"{name}: as many elements as the values say"
    return None


def check_call(function, sample):
    bridge = load_bridge()
    bridge.pause_dry(True)
    expected = _attempt(function, to_device(fresh(sample)))
    bridge.pause_dry(False)
    try:
        dry = to_device_dry(fresh, sample, bridge)
        result = _attempt(function, dry)
    finally:
        bridge.pause_dry(True)
    if expected[1] is not None:
        if result[1] is None and not _about_values(expected[1]):
            raise Different(f"not refused: {str(expected[1]).splitlines()[0][:150]}")
        return "refused by both"
    if result[1] is not None:
        raise result[1]
    compare(result[0], expected[0], "result")
    if result[2] != expected[2]:
        raise Different(f"the result shares other memory: {result[2]}, not {expected[2]}")
    return "equal"


def to_device_dry(fresh, sample, bridge):
    bridge.pause_dry(True)
    host = fresh(sample)
    bridge.pause_dry(False)
    return to_device(host)


def _about_values(error):
    words = str(error)
    return any(each in words for each in ("out of bounds", "out of range", "index", "singular", "value", "probability",
                                          "assert", "positive-definite", "nan", "negative"))  # fmt: skip


def _attempt(function, operands):
    torch.manual_seed(7)
    try:
        result = function(*operands)
    except Exception as error:
        return None, error, None
    return result, None, shared_with(result, tensors_in(operands))


def compare(result, expected, where):
    ours, theirs = list(tensors_in(result)), list(tensors_in(expected))
    if len(ours) != len(theirs):
        raise Different(f"{where}: {len(ours)} tensors, not {len(theirs)}")
    for number, (a, b) in enumerate(zip(ours, theirs)):
        for name, mine, other in (
            ("shape", tuple(a.shape), tuple(b.shape)),
            ("dtype", a.dtype, b.dtype),
            ("device", a.device, b.device),
            ("layout", a.layout, b.layout),
            ("strides", _strides(a), _strides(b)),
            ("requires_grad", a.requires_grad, b.requires_grad),
            ("conjugated", a.is_conj(), b.is_conj()),
        ):
            if mine != other:
                raise Different(f"{where} {number}: {name} {mine}, not {other}")


def _strides(t):
    """Strides that mean something: those of dimensions with more than one element."""
    if t.layout != torch.strided or t.numel() == 0:
        return None
    return tuple(stride for size, stride in zip(t.shape, t.stride()) if size > 1)
