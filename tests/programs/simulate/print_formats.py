# compare: none (the device is part of what is printed)
# devices: 2
"""Printing: repr, format, f-strings, set_printoptions, every dtype; the text without its device must be the CPU's."""

import re

import torch
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
values = {
    "floats": torch.tensor([[1.0, -2.5], [1e-8, 3e7]]), "ints": torch.arange(6).view(2, 3), "bools": torch.tensor([True, False]),
    "half": torch.tensor([0.1, 0.2], dtype=torch.float16), "bfloat": torch.tensor([0.1], dtype=torch.bfloat16),
    "complex": torch.tensor([1 + 2j, -0.5j]), "special": torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0]),
    "scalar": torch.tensor(3.14159), "empty": torch.empty(0), "empty2": torch.empty(2, 0), "bytes": torch.tensor([1, 255], dtype=torch.uint8),
    "large": torch.arange(2000.0), "wide": torch.arange(40.0).view(2, 20) / 7, "double": torch.tensor([1 / 3], dtype=torch.float64),
    "leaf": torch.ones(2, requires_grad=True), "result": torch.ones(2, requires_grad=True) * 2, "transposed": torch.arange(6.0).view(2, 3).t(),
    "conjugate": torch.tensor([1 + 1j]).conj(), "parameter": nn.Parameter(torch.zeros(2)),
}


def without_device(text):
    return re.sub(r"\s+", " ", re.sub(r",\s*device='cuda:\d'", "", text))


for name, host in values.items():
    there = nn.Parameter(host.detach().to(device)) if isinstance(host, nn.Parameter) else host.detach().to(device).requires_grad_(host.requires_grad)
    if name == "result":
        there = host.detach().to(device).div(2).requires_grad_() * 2
    shown = repr(there)
    assert (f"device='{device}'" in shown) == (device.type == "cuda"), shown
    same = without_device(shown) == without_device(repr(host))
    print(name, "same text", same, "" if same else (shown, repr(host)))

scalar = values["scalar"].to(device)
print(f"{scalar:.3f}|{scalar.item():>10.2f}|{scalar}|{float(scalar):.4f}|{int(scalar)}|" + "%.1f" % scalar)
torch.set_printoptions(precision=2, sci_mode=True, linewidth=60)
print(without_device(str(values["wide"].to(device)))[:60])
torch.set_printoptions(profile="default")
print(values["ints"].to(device).tolist(), len(values["large"].to(device)), bool(values["bools"].to(device)[0]))
print(torch.ones(1, device=device).storage().device == device, torch.ones(3, device=device).untyped_storage().nbytes())
print(nn.Linear(2, 3).to(device), torch.cuda.is_available() == torch.ones(1, device=device).is_cuda)
if torch.cuda.device_count() > 1:
    print(torch.ones(2, device="cuda:1"), torch.device("cuda"), repr(torch.device("cuda:1")), torch.cuda.get_device_name(1) != "")
