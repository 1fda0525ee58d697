"""One call of a sample with values and without, on the same simulated device: results and operands must have one
geometry, share the same memory, and have been written as often."""

import torch
from comparing import Different, fresh, shared_with, tensors_in, to_device
from locus._load import load_bridge

BY_VALUES = (
    "argwhere", "nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave",
    "__getitem__", "index_put", "combinations", "masked.median", "nn.functional.one_hot",
)  # fmt: skip
"""Operators whose results have as many elements as the values say."""

AS_VALUES_SAY = "as many elements as the values say"

ASKS_VALUES = {
    "allclose": "gives a Python bool, of values",
    "equal": "gives a Python bool, of values",
    "item": "gives a Python number",
    "cov": "refuses weights by their values",
    "linalg.eig": "its gradient refuses by values",
    "linalg.lstsq": "refuses a matrix by its rank",
    "prod": "its gradient looks for zeros",
    "LBFGS": "stops by values, and has so much state",
    "nn.CTCLoss": "the lengths of the targets are made up and do not add up to them",
}
OTHER = {
    "fft.ifft": "strides of an out= that is resized follow the values' kernel",
    "fft.ihfft": "strides of an out= that is resized follow the values' kernel",
    "sparse.mm": "reductions by rows are refused by name",
    "svd_lowrank": "strides of an intermediate result follow the values' kernel",
    "pca_lowrank": "strides of an intermediate result follow the values' kernel",
    "cholesky_inverse": "strides of an out= that is resized follow the values' kernel",
    "cat": "strides of an out= that is resized follow the values' kernel",
    "native_layer_norm": "statistics of half precision are in single, as on a card",
    "native_batch_norm": "statistics of half precision are in single, as on a card; those of an evaluation into out=",
    "_native_batch_norm_legit": "statistics of half precision are in single, as on a card",
    "_batch_norm_with_update": "statistics of half precision are in single, as on a card",
    "ldexp": "a type that can't be written in place is refused by the kernel, not by the shape rule",
    "logit": "a type that can't be written in place is refused by the kernel, not by the shape rule",
    "nn.FractionalMaxPool3d": "a wrong type of samples is refused by the kernel, not by the shape rule",
}

RELEASE = ".".join(torch.__version__.split(".")[:2])


def reason_for(name, variant, how, detail):
    """Why a sample differs; None where it must not."""
    if RELEASE == "2.14" and name == "native_group_norm" and "strides" in detail:
        return f"{name}: a result with the channels last follows the values' kernel"
    for table in (ASKS_VALUES, OTHER):
        if name in table:
            return f"{name}: {table[name]}"
    if name in BY_VALUES and any(each in detail for each in ("shape", "strides", "bytes")):
        return f"{name}: {AS_VALUES_SAY}"
    return None


def check_call(function, sample):
    bridge = load_bridge()
    bridge.pause_dry(True)
    with_values = _Call(function, to_device(fresh(sample)))
    bridge.pause_dry(False)
    try:
        dry = _Call(function, to_device_dry(fresh, sample, bridge))
    finally:
        bridge.pause_dry(True)
    if with_values.error is not None:
        if dry.error is not None:
            return "refused by both"
        if not _about_values(with_values.error):
            raise Different(f"not refused: {str(with_values.error).splitlines()[0][:150]}")
        return "refused by its values"
    if dry.error is not None:
        raise dry.error
    compare(dry.result, with_values.result, "result")
    compare(dry.operands, with_values.operands, "operand after the call")
    if dry.shared != with_values.shared:
        raise Different(f"the result shares other memory: {dry.shared}, not {with_values.shared}")
    if dry.writes != with_values.writes:
        raise Different(f"autograd knows of {dry.writes} writes to the operands, not {with_values.writes}")
    return "equal"


class _Call:
    """What came of a call, and what it did to its operands."""

    def __init__(self, function, operands):
        self.operands = tensors_in(operands)
        before = [t._version for t in self.operands]
        self.result, self.error, self.shared = None, None, None
        torch.manual_seed(7)
        try:
            self.result = function(*operands)
        except Exception as error:
            self.error = error
            return
        self.shared = shared_with(self.result, self.operands)
        self.writes = [t._version - version for t, version in zip(self.operands, before)]


def to_device_dry(fresh, sample, bridge):
    bridge.pause_dry(True)
    host = fresh(sample)
    bridge.pause_dry(False)
    return to_device(host)


def _about_values(error):
    words = str(error)
    return any(each in words for each in ("out of bounds", "out of range", "index", "singular", "value", "probability",
                                          "assert", "positive-definite", "nan", "negative"))  # fmt: skip


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
            ("bytes of the memory", _bytes(a), _bytes(b)),
        ):
            if mine != other:
                raise Different(f"{where} {number}: {name} {mine}, not {other}")


def _strides(t):
    """Strides that mean something: those of dimensions with more than one element."""
    if t.layout != torch.strided or t.numel() == 0:
        return None
    return tuple(stride for size, stride in zip(t.shape, t.stride()) if size > 1)


def _bytes(t):
    """Of the whole storage, of which a tensor may be a part."""
    return t.untyped_storage().nbytes() if t.layout == torch.strided and not t.is_nested else None
