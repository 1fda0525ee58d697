"""Captures every operator of PyTorch's database in a CUDA graph, with its first sample, and compares what two replays
leave with the plain call; for test_captured.py, which runs it in a check. The last line it prints is JSON."""

import json

import torch
from locus.ground_truth import cases
from torch.utils._pytree import tree_flatten

RANDOM = (
    "bernoulli", "cauchy", "empty", "exponential", "geometric", "log_normal", "multinomial", "new_empty", "normal",
    "rand", "uniform", "nn.functional.alpha_drop", "nn.functional.dropout", "nn.functional.feature",
    "nn.functional.fractional", "nn.functional.rrelu", "nn.functional.scaled_dot",
)  # fmt: skip


def tensors(value):
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor) and each.layout == torch.strided]


def first_sample(op):
    supported = op.supported_dtypes("cpu")
    for dtype in (torch.float32, torch.int64):
        if dtype in supported:
            return next(iter(op.sample_inputs("cuda", dtype)), None)
    return None


def difference(op, sample):
    """What is wrong with a capture; "" where nothing is, None where the call is refused without one."""

    def call():
        return op(sample.input, *sample.args, **sample.kwargs)

    try:
        plain = call()
    except Exception:
        return None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    try:
        graph.replay()
        graph.replay()
    except Exception as error:
        return str(error).partition("\n")[0]
    if op.name.startswith(RANDOM):
        return ""
    for one, other in zip(tensors(plain), tensors(result), strict=True):
        wide = torch.complex64 if one.dtype == torch.complex32 else one.dtype  # there is no comparison for that type
        try:
            torch.testing.assert_close(other.detach().cpu().to(wide), one.detach().cpu().to(wide), equal_nan=True)
        except AssertionError as error:
            return str(error)
    return ""


def main():
    cases.prepare()
    from torch.testing._internal.common_methods_invocations import op_db

    wrong, count = {}, 0
    for op in op_db:
        try:
            sample = first_sample(op)
        except Exception:
            continue  # a sample that can't be made here
        found = difference(op, sample) if sample is not None else None
        count += found is not None
        if found:
            wrong[op.name] = found
    print(json.dumps({"captured": count, "wrong": wrong}))


main()
