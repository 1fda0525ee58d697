"""Compares the simulated device's verdicts with a real GPU's, case by case; prints one JSON object.

    python tests/conformance/verdicts.py

tests/data/placement_h200_torch2.11.tsv holds, for the samples of PyTorch's own operator database, what an NVIDIA H200
with PyTorch 2.11 said when one operand (`this`) or all but one (`others`) was on the CPU: the device of the result, or
the error. Runs in a process of its own: it simulates a device.
"""

import collections
import itertools
import json
import pathlib
import sys
import types
import warnings

TABLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "placement_h200_torch2.11.tsv"


def read_table():
    """{(op, variant, sample, operand, moved): (ndim, operands, outcome, detail)}"""
    rows = {}
    for line in TABLE.read_text().splitlines()[1:]:
        op, variant, sample, operand, operands, moved, ndim, _, outcome, detail = [*line.split("\t"), ""][:10]
        rows[op, variant, int(sample), int(operand), moved] = (int(ndim), int(operands), outcome, detail)
    return rows


def pick_dtype(op, torch):
    have = op.supported_dtypes("cuda")
    wanted = [dtype for dtype in (torch.float32, torch.int64) if dtype in have]
    return wanted[0] if wanted else min(have, key=str)


def outcome_of(call, flatten, torch):
    try:
        devices = [str(t.device) for t in flatten(call())[0] if isinstance(t, torch.Tensor)]
        return "ok", devices[0] if devices else "-"
    except Exception as error:
        return type(error).__name__, (str(error).splitlines() or [""])[0][:220]


def main():
    warnings.simplefilter("ignore")
    sys.modules["expecttest"] = stub = types.ModuleType("expecttest")  # PyTorch's test utilities ask for it
    stub.TestCase = object
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_flatten, tree_unflatten

    import locus

    locus.simulate(devices=1)
    torch.set_num_threads(1)
    rows = read_table()
    samples_of = collections.defaultdict(set)
    for op, variant, sample, _, _ in rows:
        samples_of[op, variant].add(sample)
    count, different, words = collections.Counter(), [], []
    for op in op_db:
        key = (op.name, op.variant_test_name)
        if key not in samples_of:
            continue
        inputs = op.sample_inputs("cuda", pick_dtype(op, torch), requires_grad=False)
        for index, sample in enumerate(itertools.islice(inputs, max(samples_of[key]) + 1)):
            leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
            tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
            for operand, (which, moved) in itertools.product(range(len(tensors)), enumerate(("this", "others"))):
                row = rows.get((*key, index, operand, moved))
                if row is None or row[:2] != (leaves[tensors[operand]].dim(), len(tensors)):
                    count["unmatched"] += row is not None
                    continue
                case = list(leaves)
                for i in tensors:
                    to_cpu = (i == tensors[operand]) == (which == 0)
                    case[i] = leaves[i].detach().cpu() if to_cpu else leaves[i].detach().clone()
                value, args, kwargs = tree_unflatten(case, spec)
                said = outcome_of(lambda: op.op(value, *args, **kwargs), tree_flatten, torch)
                count["matched"] += 1
                same = said == row[2:] if row[2] == "ok" else said[0] != "ok"
                count["equal"] += same
                if row[2] != "ok" and same:
                    count["refused by both"] += 1
                    count["same words"] += said == row[2:]
                    if said != row[2:]:
                        words.append(["call", *key, "float32", index, operand, moved, said[1], row[3]])
                if not same:
                    different.append(["call", *key, "float32", index, operand, moved, said[1], row[3]])
    print(json.dumps({"cases": len(rows), **count, "different": different, "words": words}))


if __name__ == "__main__":
    main()
