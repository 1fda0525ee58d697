"""Host code that reads what it can't or should not: found at its line; the program goes on with the right values."""

from checker import check_source

PROGRAM = """\
import copy
import numpy as np
import torch

x = torch.arange(3.0, device="cuda")
print(x.numpy())  # LOC017
print(np.asarray(x))  # LOC017
print(np.array(x, dtype=np.float64))  # LOC017
print(np.from_dlpack(x))  # LOC017
print(np.concatenate([x, x]))  # LOC017
print(x.detach().numpy(force=True), x.cpu().numpy(), float(x[1]), x.tolist(), int(x.sum()), [v.item() for v in x])
print(torch.utils.dlpack.from_dlpack(x).device)

buffer = torch.empty(3).pin_memory()
for _ in range(2):
    buffer.copy_(x, non_blocking=True)
    print(buffer.sum().item())  # LOC020
    buffer.copy_(x, non_blocking=True)
    print(buffer.numpy())  # LOC020
    buffer.copy_(x, non_blocking=True)
    print(buffer.tolist())  # LOC020
    buffer.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    print(buffer.sum().item())
    buffer.copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    print(buffer.numpy())
    buffer.copy_(x)
    print(buffer[0].item())
buffer.copy_(x, non_blocking=True)
print(buffer.to("cuda", non_blocking=True).device, x.copy_(buffer, non_blocking=True).device)  # in order
print(buffer.to("cuda", torch.float64).dtype)  # LOC020
try:
    buffer.copy_(x, non_blocking=True)
    print(buffer[1].item())  # LOC020
except RuntimeError:
    raise SystemExit("PyTorch has no error for that")

print(torch.rand(2, device="cuda", generator=torch.Generator()).device)  # LOC016
print(torch.randperm(3, generator=torch.Generator("cuda")).device)  # LOC016
torch.empty(2, device="cuda").normal_(generator=torch.Generator("cuda"))
torch.ones(5).to("cuda", non_blocking=True)
"""


def test_each_is_found_at_its_line(program):
    checked = check_source(program, PROGRAM)
    assert checked.result.code == 1, checked.result.describe()
    marked = [
        (line.partition("# ")[2], number) for number, line in enumerate(PROGRAM.splitlines(), 1) if "# LOC" in line
    ]
    found = [(finding["code"], finding["uses"][0]["line"]) for finding in checked.findings]
    assert sorted(found) == sorted(marked), checked.result.describe()
    lines = checked.stdout.splitlines()
    assert lines[:5] == ["[0. 1. 2.]"] * 4 + ["[0. 1. 2. 0. 1. 2.]"]
    assert lines[-2:] == ["cuda:0", "cpu"]
    counts = {finding["count"] for finding in checked.findings if finding["code"] == "LOC020"}
    assert counts == {1, 2}, "a loop is one finding with a count"


def test_a_copy_that_is_not_pinned_is_a_note_in_the_ledger(program):
    checked = check_source(program, PROGRAM)
    last = len(PROGRAM.splitlines())
    notes = {entry["line"]: entry.get("note") for entry in checked.report["transfers"]}
    assert notes[last] == "non_blocking, not pinned"
    assert notes[16] == "non_blocking"


def test_asking_for_the_shape_of_a_copy_under_way_is_no_read(program):
    text = """\
import torch

x = torch.arange(3.0, device="cuda")
buffer = torch.empty(3).pin_memory()
buffer.copy_(x, non_blocking=True)
print(torch.zeros_like(buffer), buffer.new_ones(2), torch.empty_like(buffer).shape)
torch.cuda.synchronize()
print(buffer)
"""
    checked = check_source(program, text)
    assert checked.findings == [] and checked.result.code == 0, checked.result.describe()
