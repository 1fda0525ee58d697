"""0-dim tensors on the other device, through every operator that takes two tensors and nothing odd: refused or run, and
never the end of the process, neither in a kernel of PyTorch's own nor where the words are made. Hence processes."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import locus
locus.simulate(devices=2)
import torch

def call(overload, arguments):
    try:
        overload(*arguments)
        return "ran"
    except NotImplementedError:
        return "not here"
    except RuntimeError as error:
        words = str(error)
        return "refused" if "same device" in words or "cpu" in words or "CPU" in words else "raised"
    except Exception as error:
        return "raised"

def value(argument, made):
    kind = str(argument.type)
    if kind == "Tensor":
        return made()
    if kind in ("number", "float", "int"):
        return 1
    return None

CRASHES = {"aten::matrix_exp_backward"}  # in PyTorch 2.6, with 0-dim tensors on the CPU alone
fates = {}
for name in sorted(torch._C._dispatch_get_all_op_names()):
    head, _, overload_name = name.partition(".")
    if not head.startswith("aten::") or head.startswith("aten::_") or overload_name.endswith("out") or head in CRASHES:
        continue
    try:
        overload = getattr(getattr(torch.ops.aten, head[6:]), overload_name or "default")
    except AttributeError:
        continue
    needed = [a for a in overload._schema.arguments if not a.has_default_value()]
    tensors = [a for a in needed if str(a.type) == "Tensor"]
    if len(tensors) < 2 or any(value(a, lambda: 0) is None for a in needed):
        continue
    for shape in ((), (2, 2)):
        for first, second in (("cpu", "cuda"), ("cuda", "cpu"), ("cuda:0", "cuda:1")):
            for kind in (torch.float32, torch.int64, torch.bool):
                places = [torch.ones(shape, dtype=kind, device=first)]
                rest = lambda: torch.ones((), dtype=kind, device=second)
                arguments = [value(a, lambda: places.pop() if places else rest()) for a in needed]
                fates[f"{name} {shape} {first} {second} {kind}"] = call(overload, arguments)
print(json.dumps(fates))
"""


def test_no_scalar_reaches_a_kernel_of_the_other_device():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    fates = json.loads(done.stdout.splitlines()[-1])
    assert sum(fate == "refused" for fate in fates.values()) > 1500, "few were tried"
    for name in ("add_.Tensor", "mul_.Tensor", "sub_.Tensor", "atan2_", "lerp_.Scalar", "copysign_.Tensor"):
        case = f"aten::{name} (2, 2) cpu cuda torch.float32"
        assert fates[case] == "refused", (case, fates[case])


ONCE_FATAL = """
import locus; locus.simulate(1)
import torch
cuda = torch.tensor(2.0, device="cuda")
for call in (
    lambda: torch.lerp(torch.tensor(1.0), cuda, 0.5),
    lambda: torch.nn.functional.smooth_l1_loss(torch.tensor(1.0), cuda),
    lambda: torch.ones(2, 2).add_(cuda),
):
    try:
        print(call())
    except RuntimeError as error:
        print(str(error)[-30:])
"""


def test_what_once_ended_the_process():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", ONCE_FATAL],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # Numbers in messages: a second C++ runtime in the process would lose them, or worse.
    words = ["CUDA device but found cpu", "CUDA device but found cpu", "two devices, cuda:0 and cpu!"]
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(word in line for word, line in zip(words, lines)), (done.stdout, done.stderr[-2000:])
