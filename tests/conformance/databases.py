# ruff: noqa: E501
"""PyTorch's own databases of samples on a simulated device, against the CPU; prints one JSON object.

    python tests/conformance/databases.py [--dry] [--all] [--only NAME] [--part K/N] [--progress FILE]

Operators (op_db), modules (module_db), optimizers (optim_db): values bit for bit, dtype, shape, strides, device,
what memory a result shares, how often operands were written; forward and gradient, in-place and `out=` calls. Without
--all: the first three samples of each, single precision with gradient. Samples are made on the CPU and copied. Runs in
a process of its own.
With --progress, each entry's result is kept in FILE as it comes: a run that was interrupted goes on where it stopped,
unless PyTorch, Locus or these files have changed since.
"""

import argparse
import collections
import copy
import hashlib
import itertools
import json
import pathlib
import sys
import time

from locus.ground_truth.cases import prepare

torch = prepare()

import locus

DRY = "--dry" in sys.argv
"""Compares the geometry of results without values with that of results with values."""
locus.simulate(
    devices=1, rng="cpu", dry=DRY, dry_keep=0
)  # one stream of random numbers, so that drawing operators can be compared too

import differences
import dry_comparing
from comparing import Different, SameCalls, compare, fresh, shared_with, tensors_in, to_device
from torch.utils._pytree import tree_map

DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bfloat16)


class Tally:
    """What became of each sample."""

    def __init__(self):
        self.count = collections.Counter()
        self.by_operator = collections.defaultdict(collections.Counter)
        self.failures, self.listed_seen = [], set()

    def add(self, name, variant, how, fate, detail=""):
        self.count["samples"] += 1
        self.count[fate] += 1
        self.by_operator[name][fate] += 1
        if fate == "failed":
            self.failures.append([name, variant, how, detail])

    def judge(self, name, variant, how, check):
        """Runs check() and books what it says: a fate, or an exception."""
        try:
            fate, detail = check(), ""
        except Different as error:
            fate, detail = "failed", str(error)
        except NotImplementedError as error:
            fate, detail = "failed", "not simulated: " + str(error).splitlines()[0]
        except Exception as error:
            fate, detail = "failed", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if fate == "failed":
            reasons = dry_comparing if DRY else differences
            reason = reasons.reason_for(name, variant, how, detail[:300])
            if reason is not None:
                self.listed_seen.add(reason)
                fate = "as values say" if reason.endswith(dry_comparing.AS_VALUES_SAY) else "listed"
        self.add(name, variant, how, fate, detail[:300])

    def as_json(self):
        fates = {name: dict(fates) for name, fates in self.by_operator.items()}
        return [dict(self.count), fates, self.failures, sorted(self.listed_seen)]

    def include(self, kept):
        """What another tally counted, as as_json() gave it."""
        count, fates, failures, reasons = kept
        self.count.update(count)
        for name, counted in fates.items():
            self.by_operator[name].update(counted)
        self.failures += failures
        self.listed_seen.update(reasons)


class Progress:
    """The entries that are done, in a file: one line each."""

    def __init__(self, path, *settings):
        self.done, self.path = {}, pathlib.Path(path) if path else None
        if self.path is None:
            return
        of_what = [torch.__version__, fingerprint(), *settings]
        lines = self.path.read_text().split("\n")[:-1] if self.path.exists() else []  # the last may be half a line
        if lines and json.loads(lines[0]) == of_what:
            self.done = {(database, number): kept for database, number, kept in map(json.loads, lines[1:])}
        else:
            lines = [json.dumps(of_what)]
        self.path.write_text("".join(line + "\n" for line in lines))

    def add(self, database, number, tally):
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([database, number, tally.as_json()]) + "\n")


def fingerprint():
    """Of the installed Locus, and of the files here that decide."""
    package, here = pathlib.Path(locus.__file__).parent, pathlib.Path(__file__).parent
    paths = [path for path in sorted(package.rglob("*")) if path.suffix in (".py", ".so")]
    paths += [here / name for name in ("databases.py", "comparing.py", "differences.py", "dry_comparing.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def attempt(call):
    """(result, None) or (None, error), from the same state of the generator each time."""
    torch.manual_seed(7)
    try:
        return call(), None
    except Exception as error:
        return None, error


def check_call(function, sample):
    """One call with operands on the device, and the same on the CPU; sample is a tree of CPU tensors."""
    if DRY:
        return dry_comparing.check_call(function, sample)
    here, there = fresh(sample), to_device(sample)
    before = [versions(here), versions(there)]
    expected, refusal = attempt(lambda: function(*here))
    result, error = attempt(lambda: function(*there))
    if refusal is not None:
        if error is None:
            return by_parts(lambda again: function(*again), sample)
        if options.verbose:
            print("refused:", str(refusal)[:100], "|", str(error)[:100], file=sys.stderr)
        return "refused by both"
    if error is not None:
        raise error
    try:
        compare(result, expected)
        compare(tensors_in(there), tensors_in(here), "operand after the call")
        if shared_with(result, tensors_in(there)) != shared_with(expected, tensors_in(here)):
            raise Different("the result shares other memory")
    except Different:
        return by_parts(lambda again: function(*again), sample)
    writes = [[after - old for after, old in zip(versions(tree), kept)] for tree, kept in zip((here, there), before)]
    if writes[0] != writes[1]:
        raise Different(f"autograd knows of {writes[1]} writes to the operands, not {writes[0]}")
    return "equal"


def versions(tree):
    """How often each tensor was written, as autograd counts it."""
    return [t._version for t in tensors_in(tree)]


def by_parts(call, sample):
    """The whole differs: PyTorch took another path, the CPU's own result does not repeat, or the simulation is wrong."""
    for _ in range(3):
        (first, _), (second, _) = (attempt(lambda: call(fresh(sample))) for _ in range(2))
        try:
            compare(first, second, "on the CPU")
        except Different as error:
            raise Different(f"the CPU's own result does not repeat ({error})") from None
    torch.manual_seed(7)
    with SameCalls() as watched:
        call(to_device(sample))
    if watched.alone - differences.CUDA_ONLY:
        raise Different(f"no kernel for the CPU: {sorted(watched.alone - differences.CUDA_ONLY)}")
    if watched.calls == 0 and not watched.alone:
        raise Different("the result differs, but not in an operator that could be watched")
    return "equal by parts"


def gradients(function, process=None):
    """function, then its gradients for ones that are not all the same."""

    def call(*sample):
        result = function(*sample)
        if process is not None:
            result = process(result)
        outputs = [t for t in tensors_in(result) if t.requires_grad]
        inputs = [t for t in tensors_in(sample) if t.requires_grad]
        if not outputs or not inputs:
            return result
        cotangents = [torch.ones_like(t) * 0.5 for t in outputs]
        return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))

    return call


def check_operator(op, tally, everything):
    name, variant = op.name, op.variant_test_name
    for dtype in DTYPES if everything else DTYPES[:1]:
        if dtype not in op.supported_dtypes("cpu"):
            if everything or not op.supported_dtypes("cpu") & {torch.int64}:
                continue
            dtype = torch.int64
        short = str(dtype).removeprefix("torch.")
        learns = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        samples = list(
            itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=learns), None if everything else 3)
        )
        inplace = op.get_inplace()
        for index, sample in enumerate(samples):
            leaves = (sample.input, tuple(sample.args), sample.kwargs)
            plain = tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, leaves)

            if name == "tensor_split" and tensors_in(sample.args):
                continue  # PyTorch takes indices on the CPU only; `to_device` moves them all

            def call(value, args, kwargs, function=op.op):
                return function(value, *args, **kwargs)

            tally.judge(name, variant, f"{short} forward", lambda: check_call(call, plain))
            if learns:
                process = getattr(sample, "output_process_fn_grad", None)
                tally.judge(name, variant, f"{short} gradient", lambda: check_call(gradients(call, process), leaves))
            if inplace is not None and isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input:
                tally.judge(
                    name,
                    variant,
                    f"{short} in-place",
                    lambda: check_call(lambda v, a, k: call(v, a, k, inplace), plain),
                )
            if op.supports_out and index < (len(samples) if everything else 1):
                tally.judge(name, variant, f"{short} out=", lambda: check_call(with_out(call), plain))


def with_out(call):
    """The call with results written into tensors of the right kind, and into empty ones that have to be resized."""

    def function(value, args, kwargs):
        made = call(value, args, kwargs)
        single = isinstance(made, torch.Tensor)
        results = [made] if single else list(made)
        done = []
        for sized in (True, False):
            out = [torch.zeros_like(t) if sized else torch.empty(0, dtype=t.dtype, device=t.device) for t in results]
            done.append(call(value, args, dict(kwargs, out=out[0] if single else tuple(out))))
            done.append(out)
        return done

    return function


def check_module(info, tally, everything):
    for training in (True, False):
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
        )
        for sample in itertools.islice(samples, None if everything else 3):
            if sample.forward_input is None:
                continue
            made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            made.train(training)
            if isinstance(made, torch.nn.modules.lazy.LazyModuleMixin):
                made(*sample.forward_input.args, **sample.forward_input.kwargs)
            named = dict(itertools.chain(made.named_parameters(), made.named_buffers()))
            names, state = list(named), list(named.values())
            inputs = (tuple(sample.forward_input.args), sample.forward_input.kwargs)

            def call(args, kwargs, state):
                module = copy.deepcopy(made)
                for name, value in zip(names, state):
                    owner = module.get_submodule(name.rpartition(".")[0])
                    short = name.rpartition(".")[2]
                    if short in owner._parameters:
                        owner._parameters[short] = torch.nn.Parameter(value.detach(), value.requires_grad)
                    else:
                        owner._buffers[short] = value
                result = module(*args, **kwargs)
                learning = [t for t in tensors_in((args, kwargs)) if t.requires_grad] + [
                    p for p in module.parameters() if p.requires_grad
                ]
                outputs = [t for t in tensors_in(result) if t.requires_grad]
                if not outputs or not learning:
                    return result, list(module.buffers())
                found = torch.autograd.grad(outputs, learning, [torch.ones_like(t) for t in outputs], allow_unused=True)
                return result, list(module.buffers()), list(found)

            how = "training" if training else "evaluation"
            tally.judge(info.name, "", how, lambda: check_call(call, (*inputs, state)))


def check_optimizer(info, tally, everything):
    implementations = [{"foreach": False} if "foreach" in info.supported_impls else {}]
    implementations += [{name: True} for name in info.supported_impls]
    for config, options in itertools.product(info.optim_inputs_func("cuda"), implementations):
        options = dict(config.kwargs, **options)
        if options.get("fused") and (options.get("foreach") or options.get("differentiable")):
            continue
        if options.get("fused") and "cuda" not in getattr(info, "supports_fused_on", ("cuda",)):
            continue  # PyTorch refuses it on a card (Adagrad in 2.6)
        differentiable = options.get("differentiable", False)

        def train(parameters):
            learned = [p.clone().requires_grad_() if not differentiable else p.clone() for p in parameters]
            moved = {
                n: v.to(learned[0].device)
                if isinstance(v, torch.Tensor) and options.get("capturable")
                else copy.deepcopy(v)
                for n, v in options.items()
            }
            optimizer = info.optim_cls(learned, **moved)
            for step in range(3):
                for p in learned:
                    p.grad = p.detach() * 0.3 + 0.1 * (step + 1)
                    if info.only_supports_sparse_grads:
                        p.grad = p.grad.to_sparse()

                def closure():
                    return sum((p.detach() ** 2).sum() for p in learned)

                optimizer.step(closure) if info.step_requires_closure else optimizer.step()
            state = [optimizer.state[p] for p in learned]
            return [p.detach() for p in learned], state

        parameters = [torch.linspace(-1, 1, 6).reshape(3, 2), torch.linspace(0.1, 1, 4).reshape(2, 2)]
        how = " ".join(f"{k}={v}" for k, v in options.items())
        tally.judge(info.name, "", how, lambda: check_call(train, (parameters,)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--progress", metavar="FILE")
    parser.add_argument("--dry", action="store_true", help="compare geometry without and with values, on the device")
    parser.add_argument("--verbose", action="store_true")
    global options
    options = parser.parse_args()
    torch.set_num_threads(1)
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    part, parts = map(int, options.part.split("/"))
    progress = Progress(options.progress, options.all, options.only, options.part, options.dry)
    result = {}
    for database, entries, check in (
        ("operators", op_db, check_operator),
        ("modules", module_db, check_module),
        ("optimizers", optim_db, check_optimizer),
    ):
        tally, started = Tally(), time.monotonic()
        for number, entry in enumerate(entries[part::parts]):
            if options.only and options.only not in (entry.name, database):
                continue
            if database == "operators" and "jiterator" in entry.name:
                continue
            if (database, number) in progress.done:
                tally.include(progress.done[database, number])
                continue
            began, own = time.monotonic(), Tally()
            if options.verbose:
                print(entry.name, file=sys.stderr)
            try:
                check(entry, own, options.all)
            except Exception as error:  # the database can't make its samples here
                own.count["samples that PyTorch can't make"] += 1
                own.failures.append([entry.name, "", "samples", f"{type(error).__name__}: {str(error)[:200]}"])
            progress.add(database, number, own)
            tally.include(own.as_json())
            if options.verbose and time.monotonic() - began > 1:
                print(f"{entry.name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        result[database] = {
            **tally.count,
            "seconds": round(time.monotonic() - started, 1),
            "failures": tally.failures,
            "reasons": sorted(tally.listed_seen),
            "by operator": {name: dict(fates) for name, fates in sorted(tally.by_operator.items())},
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
