# ruff: noqa: E501
"""What PyTorch says when one operand of a call is on another device: the cases, and the script that takes them.

    python tests/conformance/placement.py TABLE.tsv        # on a machine with a real GPU; needs nothing of Locus

Beyond the first table (tests/data/placement_h200_torch2.11.tsv, plain calls): other dtypes, in-place calls, `out=`,
backward passes, whole modules and optimizers. Cases come from PyTorch's own databases of samples, in a fixed order, so
that another machine or version meets the same ones: a case is known by its key and by the shapes of its tensors. Work
is split over processes, because a case may poison a CUDA context; the next one goes on behind it.
"""

import copy
import itertools
import os
import subprocess
import sys
import time
import types
import warnings

KINDS = ("call", "inplace", "out", "backward", "module", "optimizer")
PROCESSES = 12
LIMIT = 210.0  # seconds; what a hung process has left is missing then
POISON = ("device-side assert", "illegal memory", "CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS", "cuFFT error")
HOME = "cuda:0"


def prepare():
    """PyTorch's test utilities ask for a module that is not always there, and warn a lot."""
    warnings.simplefilter("ignore")
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = stub = types.ModuleType("expecttest")
        stub.TestCase = object
    import torch

    torch.set_num_threads(1)
    return torch


def flatten(value):
    from torch.utils._pytree import tree_flatten

    return tree_flatten(value)


def devices_of(result):
    """The devices of a result's tensors: one name if they agree, else all in order."""
    import torch

    found = [str(leaf.device) for leaf in flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    return (found[0] if len(set(found)) == 1 else ",".join(found)) if found else "-"


def outcome_of(call):
    """("ok", devices) or (the exception's type, its first line)"""
    try:
        said = "ok", devices_of(call())
        synchronise()
        return said
    except Exception as error:
        line = (str(error).splitlines() or [""])[0]
        return type(error).__name__, " ".join(line.split())[:220]


def synchronise():
    import torch

    torch.cuda.synchronize()


def on(device, leaf, grad=None):
    """A fresh leaf tensor there."""
    moved = leaf.detach().clone().to(device)
    return moved.requires_grad_(leaf.requires_grad if grad is None else grad)


def placements(count):
    """(operand, moved, devices): each tensor alone on the CPU, then each alone on the device."""
    for operand, moved in itertools.product(range(count), ("this", "others")):
        yield operand, moved, ["cpu" if (i == operand) == (moved == "this") else HOME for i in range(count)]


class Sample:
    """One sample of an operator: its leaves, which of them are tensors, and how to call with other leaves."""

    def __init__(self, op, sample):
        import torch

        self.op = op
        self.leaves, self.spec = flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.shapes = "/".join("x".join(map(str, self.leaves[i].shape)) or "." for i in self.tensors)
        self.plain = all(self.leaves[i].layout == torch.strided for i in self.tensors)

    def placed(self, devices, grad=False):
        """(input, args, kwargs, tensors) with the tensors on these devices."""
        from torch.utils._pytree import tree_unflatten

        leaves = list(self.leaves)
        for i, device in zip(self.tensors, devices):
            leaves[i] = on(device, leaves[i], grad and leaves[i].requires_grad)
        return (*tree_unflatten(leaves, self.spec), [leaves[i] for i in self.tensors])


def samples_of(op, dtype, grad, wanted, at_least, skip=0):
    """The first samples with enough tensors, after `skip` of them, with their numbers."""
    taken = 0
    inputs = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for index, raw in enumerate(itertools.islice(inputs, 60)):
        sample = Sample(op, raw)
        if not at_least <= len(sample.tensors) <= 12 or not sample.plain:
            continue
        taken += 1
        if taken <= skip:
            continue
        yield index, sample
        if taken >= wanted + skip:
            return


def call_cases(op, torch):
    """Plain calls: other dtypes, and in single precision the samples after those of the first table."""
    for dtype, wanted, skip in (
        (torch.float32, 4, 4),
        (torch.bfloat16, 2, 0),
        (torch.int64, 2, 0),
        (torch.complex64, 2, 0),
    ):
        if dtype not in op.supported_dtypes("cuda"):
            continue
        for index, sample in samples_of(op, dtype, False, wanted, 2, skip):
            for operand, moved, devices in placements(len(sample.tensors)):
                value, args, kwargs, _ = sample.placed(devices)
                said = outcome_of(lambda: op.op(value, *args, **kwargs))
                yield dtype, index, operand, moved, sample.shapes, said


def inplace_cases(op, torch):
    variant = op.get_inplace()
    if variant is None:
        return
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype not in op.supported_dtypes("cuda"):
            continue
        for index, sample in samples_of(op, dtype, False, 3, 2):
            for operand, moved, devices in placements(len(sample.tensors)):
                value, args, kwargs, _ = sample.placed(devices)
                if not isinstance(value, torch.Tensor):
                    continue
                yield dtype, index, operand, moved, sample.shapes, outcome_of(lambda: variant(value, *args, **kwargs))
        return


def out_cases(op, torch):
    """Results written into tensors on the other device, then operands on the other device; by turns right and wrong."""
    if not op.supports_out:
        return
    dtype = next((d for d in (torch.float32, torch.int64) if d in op.supported_dtypes("cuda")), None)
    if dtype is None:
        return
    for index, sample in samples_of(op, dtype, False, 2, 1):
        count = len(sample.tensors)
        value, args, kwargs, _ = sample.placed(["cpu"] * count)
        try:
            result = op.op(value, *args, **kwargs)
        except Exception:
            continue
        results = [result] if isinstance(result, torch.Tensor) else result
        if not isinstance(results, (tuple, list)) or not all(isinstance(r, torch.Tensor) for r in results):
            continue

        def call(devices, targets):
            value, args, kwargs, _ = sample.placed(devices)
            out = [torch.empty_like(r, device=d) for r, d in zip(results, targets)]
            return op.op(value, *args, **kwargs, out=out[0] if isinstance(result, torch.Tensor) else tuple(out))

        yield (
            dtype,
            index,
            -1,
            "results",
            sample.shapes,
            outcome_of(lambda: call([HOME] * count, ["cpu"] * len(results))),
        )
        yield (
            dtype,
            index,
            -1,
            "operands",
            sample.shapes,
            outcome_of(lambda: call(["cpu"] * count, [HOME] * len(results))),
        )
        if len(results) > 1:
            mixed = ["cpu"] + [HOME] * (len(results) - 1)
            yield dtype, index, -1, "first result", sample.shapes, outcome_of(lambda: call([HOME] * count, mixed))
        if count > 1:
            for operand, moved, devices in placements(count):
                yield (
                    dtype,
                    index,
                    operand,
                    moved,
                    sample.shapes,
                    outcome_of(lambda: call(devices, [HOME] * len(results))),
                )


def backward_cases(op, torch):
    """A gradient on the other device; and, where the forward call is legal with mixed devices, its backward pass."""
    if not op.supports_autograd or torch.float32 not in op.supported_dtypes("cuda"):
        return

    def differentiate(devices, gradient_device=None):
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

    inputs = op.sample_inputs("cpu", torch.float32, requires_grad=True)
    taken = 0
    for index, raw in enumerate(itertools.islice(inputs, 20)):
        sample = Sample(op, raw)
        sample.process = getattr(raw, "output_process_fn_grad", None)
        count = len(sample.tensors)
        if not 1 <= count <= 12 or not sample.plain:
            continue
        yield (
            torch.float32,
            index,
            -1,
            "gradient",
            sample.shapes,
            outcome_of(lambda: differentiate([HOME] * count, "cpu")),
        )
        if count > 1:
            for operand, moved, devices in placements(count):
                yield torch.float32, index, operand, moved, sample.shapes, outcome_of(lambda: differentiate(devices))
        taken += 1
        if taken == 2:
            return


def module_cases(info, torch):
    """A module on the device with an input on the CPU, one on the CPU with inputs on the device, a parameter left behind."""
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
    for index, sample in enumerate(itertools.islice(samples, 5)):
        forward = sample.forward_input
        if forward is None:
            continue
        made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        leaves, spec = flatten((forward.args, forward.kwargs))
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        names = [name for name, _ in itertools.chain(made.named_parameters(), made.named_buffers())][:10]
        shapes = "/".join("x".join(map(str, leaves[i].shape)) or "." for i in tensors) + "|" + str(len(names))

        def call(module_device, devices, left=None):
            from torch.utils._pytree import tree_unflatten

            module = copy.deepcopy(made).to(module_device)
            if left is not None:
                owner = module.get_submodule(left.rpartition(".")[0])
                name = left.rpartition(".")[2]
                there = owner._parameters if name in owner._parameters else owner._buffers
                moved = there[name].detach().cpu()
                there[name] = torch.nn.Parameter(moved, False) if name in owner._parameters else moved
            placed = list(leaves)
            for i, device in zip(tensors, devices):
                placed[i] = on(device, placed[i], False)
            args, kwargs = tree_unflatten(placed, spec)
            return module(*args, **kwargs)

        count = len(tensors)
        yield torch.float32, index, -1, "inputs", shapes, outcome_of(lambda: call(HOME, ["cpu"] * count))
        yield torch.float32, index, -1, "module", shapes, outcome_of(lambda: call("cpu", [HOME] * count))
        for number, name in enumerate(names):
            yield (
                torch.float32,
                index,
                number,
                "parameter",
                shapes,
                outcome_of(lambda: call(HOME, [HOME] * count, name)),
            )
        if count > 1:
            for operand, moved, devices in placements(count):
                yield torch.float32, index, operand, moved, shapes, outcome_of(lambda: call(HOME, devices))


def optimizer_cases(info, torch):
    """State that stayed on the CPU when the parameters moved."""
    for index, config in enumerate(itertools.islice(info.optim_inputs_func("cuda"), 14)):
        for number, options in enumerate(({"foreach": False}, {"foreach": True}, {"fused": True})):
            if "fused" in options and not info.supports_fused_on:
                continue

            def step(devices):
                torch.manual_seed(0)
                parameters = [
                    torch.nn.Parameter(torch.ones(3, 2, device=HOME)),
                    torch.nn.Parameter(torch.ones(2, device=HOME)),
                ]
                optimizer = info.optim_cls(parameters, **dict(config.kwargs, **options))
                for _ in range(2):
                    for p in parameters:
                        p.grad = torch.ones_like(p)
                        if info.optim_cls is torch.optim.SparseAdam:
                            p.grad = p.grad.to_sparse()
                    closure = (lambda: parameters[0].sum()) if info.step_requires_closure else None
                    optimizer.step(closure) if closure else optimizer.step()
                    for state in optimizer.state.values():
                        for name, value in state.items():
                            if isinstance(value, torch.Tensor) and (
                                devices == "all" or (value.dim() == 0) == (devices == "scalars")
                            ):
                                state[name] = value.cpu()
                return parameters

            for moved in ("all", "scalars", "tensors"):
                yield (
                    torch.float32,
                    index,
                    number,
                    f"state: {moved}",
                    config.desc or "-",
                    outcome_of(lambda: step(moved)),
                )


def entries(kind):
    """[(name, variant, generator of cases)] of one kind, in a fixed order."""
    import torch

    if kind == "module":
        from torch.testing._internal.common_modules import module_db

        return [(info.name, "", lambda info=info: module_cases(info, torch)) for info in module_db]
    if kind == "optimizer":
        from torch.testing._internal.common_optimizers import optim_db

        return [(info.name, "", lambda info=info: optimizer_cases(info, torch)) for info in optim_db]
    from torch.testing._internal.common_methods_invocations import op_db

    make = {"call": call_cases, "inplace": inplace_cases, "out": out_cases, "backward": backward_cases}[kind]
    return [
        (op.name, op.variant_test_name, lambda op=op: make(op, torch))
        for op in op_db
        if "jiterator" not in op.name and "sparse" not in op.name
    ]


def rows_of(kind, name, variant, cases):
    import torch

    torch.manual_seed(0)
    for dtype, sample, operand, moved, shapes, said in cases():
        yield (kind, name, variant, str(dtype).removeprefix("torch."), str(sample), str(operand), moved, shapes, *said)


def work(share, start, path):
    """One process's share of the entries, from its `start`th on; writes how far it came."""
    prepare()
    everything = [(kind, *entry) for kind in KINDS for entry in entries(kind)]
    mine = everything[share::PROCESSES]
    with open(f"{path}.{share}", "a", buffering=1 << 14) as out:
        for number, (kind, name, variant, cases) in enumerate(mine):
            if number < start:
                continue
            with open(f"{path}.{share}.at", "w") as at:
                at.write(str(number))
            try:
                for row in rows_of(kind, name, variant, cases):
                    out.write("\t".join(row) + "\n")
                    if any(word in row[-1] for word in POISON):
                        out.flush()
                        os._exit(3)
            except Exception as error:  # the database itself can't make its samples here
                print(f"{kind} {name} {variant}: {type(error).__name__}: {str(error)[:150]}", flush=True)
        out.flush()
    os._exit(0)


def write_table(rows, path):
    """One line for each sample: its key, then operand, moved and the number of the outcome for each case; outcomes first."""
    outcomes, samples = {}, {}
    for kind, name, variant, dtype, sample, operand, moved, shapes, outcome, detail in rows:
        said = outcomes.setdefault((outcome, detail.replace('"/pytorch/aten', '"aten')), len(outcomes))
        samples.setdefault((kind, name, variant, dtype, sample, shapes), []).append(f"{operand} {moved}={said}")
    with open(path, "w") as out:
        for outcome, detail in outcomes:
            out.write(f"= {outcome}\t{detail}\n")
        for key, cases in samples.items():
            out.write("\t".join((*key, *cases)) + "\n")


def read_table(path):
    """{(kind, name, variant, dtype, sample, operand, moved): (shapes, outcome, detail)}"""
    outcomes, table = [], {}
    with open(path) as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("= "):
                outcomes.append((fields[0][2:], fields[1]))
                continue
            *key, shapes = fields[:6]
            for case in fields[6:]:
                where, _, number = case.rpartition("=")
                operand, _, moved = where.partition(" ")
                table[(*key, operand, moved)] = (shapes, *outcomes[int(number)])
    return table


def take(path):
    """Runs the shares side by side, each again behind a case that ended it."""
    for share, suffix in itertools.product(range(PROCESSES), ("", ".at")):
        open(f"{path}.{share}{suffix}", "w").close()

    def begin(share, start):
        return subprocess.Popen([sys.executable, __file__, str(share), str(start), path])

    running = {share: begin(share, 0) for share in range(PROCESSES)}
    started = time.monotonic()
    while running:
        for share, process in list(running.items()):
            try:
                code = process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if time.monotonic() - started < LIMIT:
                    continue
                process.kill()
                print(f"process {share} was stopped after {LIMIT:.0f} s", flush=True)
                code = 0
            del running[share]
            if code != 0 and time.monotonic() - started < LIMIT:
                with open(f"{path}.{share}.at") as at:
                    reached = int(at.read() or 0)
                print(f"process {share} ended with {code} at entry {reached}; going on behind it", flush=True)
                running[share] = begin(share, reached + 1)
    rows = []
    for share in range(PROCESSES):
        with open(f"{path}.{share}") as lines:
            rows += [tuple(line.rstrip("\n").split("\t")) for line in lines]
        os.remove(f"{path}.{share}")
        os.remove(f"{path}.{share}.at")
    write_table(rows, path)
    print(len(rows), "cases")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        take(sys.argv[1])
    else:
        work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
