# Errors on purpose: probing what is allowed
import torch


def attempt(fn):
    try:
        fn()
    except (RuntimeError, TypeError) as e:
        return "refused" if "device" in str(e).lower() else "other"
    return "allowed"


def best_device(model, x):
    """The first device on which the model runs."""
    for name in ("cpu", "cuda:0", "cuda:1"):
        try:
            model(x.to(name))
        except RuntimeError:
            continue
        return name
    raise SystemExit("nowhere")


gpu = torch.arange(4.0, device="cuda")
cpu = torch.arange(4.0)
table = {
    "add": attempt(lambda: gpu + cpu),
    "scalar": attempt(lambda: gpu + cpu[0]),
    "index": attempt(lambda: gpu[cpu.long()]),
    "rindex": attempt(lambda: cpu[gpu.long()]),
    "copy": attempt(lambda: cpu.copy_(gpu)),
    "numpy": attempt(lambda: gpu.numpy()),
    "cat": attempt(lambda: torch.cat([gpu, cpu])),
    "list": attempt(lambda: gpu.tolist()),
}
model = torch.nn.Linear(4, 1).to("cuda:1")
print(table)
print(best_device(model, cpu), gpu.sum().item())

try:
    joint = gpu @ cpu
except RuntimeError:
    joint = gpu @ cpu.to(gpu.device)
print(joint.item())
