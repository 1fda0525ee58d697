"""The waits that are written for races: on which device, for which stream, behind which line."""

import textwrap

import pytest
from checker import DEADLINE, LOCUS, check, check_source

START = "import torch\n"


def edits(program, text: str, devices: int = 2) -> list[str]:
    return [fix["new"].strip() for f in check_source(program, START + text, devices).findings for fix in f["fixes"]]


READ_ELSEWHERE = """
s = torch.cuda.Stream("cuda:1")
{said}
a = torch.ones(100, device="cuda:1")
s.wait_stream(torch.cuda.current_stream("cuda:1"))
with torch.cuda.stream(s):
    b = a.cumsum(0)
c = b + 1
torch.cuda.synchronize(1)
print(c.sum().item())
"""
READ_IN_BLOCK = """
s = torch.cuda.Stream("cuda:1")
a = torch.ones(100, device="cuda:1")
{before}
with torch.cuda.stream(s):
    b = a.cumsum(0)
s.synchronize()
print(b.sum().item())
"""
READ_BY_HOST = """
host = torch.empty(100, pin_memory=True)
a = torch.ones(100, device="cuda:1")
host.copy_(a, non_blocking=True)
torch.cuda.synchronize()
print(host.sum().item())
"""
WRITTEN_BY_HOST = """
staging = torch.zeros(100, pin_memory=True)
a = staging.to("cuda:1", non_blocking=True)
staging.fill_(1)
torch.cuda.synchronize(1)
print(a.sum().item())
"""
BETWEEN_DEVICES = """
src = torch.arange(6.0, device="cuda:0")
host = torch.empty(6, pin_memory=True)
host.copy_(src, non_blocking=True)
other = host.to("cuda:1", non_blocking=True)
torch.cuda.synchronize(0)
torch.cuda.synchronize(1)
print(other.sum().item())
"""
IN_FUNCTION = """
def use(x, side):
    with torch.cuda.stream(side):
        b = x.cumsum(0)
    return b.sum()

s = torch.cuda.Stream(1)
x = torch.ones(100, device="cuda:1")
s.wait_stream(torch.cuda.current_stream(1))
print(use(x, s).item())
"""
FIRST_FROM_SECOND = """
device = "cuda"
s = torch.cuda.Stream(0)
a = torch.ones(100, device=device)
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    b = a.cumsum(0)
torch.cuda.set_device(1)
c = b + 1
torch.cuda.synchronize(0)
print(c.sum().item())
"""

ELSEWHERE = {
    "read": (READ_ELSEWHERE.format(said=""), 'torch.cuda.current_stream("cuda:1").wait_stream(s)'),
    "read, a name for the device": (
        READ_ELSEWHERE.format(said='device = torch.device("cuda:1")'),
        "torch.cuda.current_stream(device).wait_stream(s)",
    ),
    "read in a block": (READ_IN_BLOCK.format(before=""), 's.wait_stream(torch.cuda.current_stream("cuda:1"))'),
    "read in a block, on the current device": (
        READ_IN_BLOCK.format(before="torch.cuda.set_device(1)"),
        "s.wait_stream(torch.cuda.current_stream())",
    ),
    "read by the host": (READ_BY_HOST, 'torch.cuda.synchronize("cuda:1")'),
    "written by the host": (WRITTEN_BY_HOST, 'torch.cuda.current_stream("cuda:1").synchronize()'),
    "between devices": (
        BETWEEN_DEVICES,
        'torch.cuda.current_stream("cuda:1").wait_stream(torch.cuda.current_stream())',
    ),
    "in a function": (IN_FUNCTION, "torch.cuda.current_stream(b.device).wait_stream(side)"),
    "a name that means the current device": (
        FIRST_FROM_SECOND,
        'torch.cuda.current_stream("cuda:0").wait_stream(s)',
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_race_on_another_device_has_a_wait_there(program, tmp_path, case):
    text, edit = ELSEWHERE[case]
    assert edits(program, text) == [edit]
    target = tmp_path / "program.py"
    target.write_text(START + text)
    fixed = program.run(LOCUS, "fix", "--devices", "2", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    assert edit in target.read_text(), fixed.describe()
    again = check(program, target, devices=2)
    assert again.findings == [], again.result.describe()


HOOKS = """
off = torch.cuda.Stream()
w = torch.ones(4, device="cuda", requires_grad=True)

def pack(t):
    host = torch.empty(t.shape, pin_memory=True)
    {wait}
    with torch.cuda.stream(off):
        host.copy_(t, non_blocking=True)
    return host

def unpack(h):
    off.synchronize()
    return h.to("cuda")

x = torch.randn(4, device="cuda")
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (w * x).sum()
y.backward()
print(w.grad.shape)
"""


def test_hooks_for_saved_tensors_have_their_own_lines(program):
    (finding,) = check_source(program, START + HOOKS.format(wait="pass"), devices=1).findings
    assert finding["uses"][0]["text"].strip() == "host.copy_(t, non_blocking=True)"
    (edit,) = finding["fixes"]
    assert edit["new"] == "    off.wait_stream(torch.cuda.current_stream())"
    right = check_source(program, START + HOOKS.format(wait="off.wait_stream(torch.cuda.current_stream())"), devices=1)
    assert right.findings == [], right.result.describe()


GATHERED = """
import torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
parts = [torch.full((4,), float(rank + n), device="cuda") for n in range(3)]
outs = [torch.empty(4 * size, device="cuda") for _ in range(3)]
works = [{call} for out, part in zip(outs, parts)]
total = torch.zeros((), device="cuda")
for n in range(3):
    total += outs[n].sum()
print(total.item())
dist.destroy_process_group()
"""
CALL = "dist.all_gather_into_tensor(out, part, async_op=True)"


@pytest.mark.parametrize(
    ("call", "edit"),
    [(CALL, "for work in works:\n        work.wait()"), (f"({CALL}, out)", None)],
    ids=["list", "pairs"],
)
def test_works_in_a_list_are_waited_for_one_by_one(program, tmp_path, call, edit):
    path = tmp_path / "program.py"
    path.write_text(START + GATHERED.format(call=call))
    found = check(program, path, devices=2, options=("--nproc", "2")).findings
    written = [fix["new"].strip() for finding in found for fix in finding["fixes"]]
    assert {finding["code"] for finding in found} == {"LOC036"}
    assert set(written) == ({edit} if edit else set())


APPENDED = """
works = []
for part in parts:
    works.append({call})
works[0].wait()
print(sum(part.sum().item() for part in parts))
"""


@pytest.mark.parametrize(
    ("call", "edit"),
    [("dist.all_reduce(part, async_op=True)", "for work in works:\n    work.wait()"),
     ("(dist.all_reduce(part, async_op=True), part)", None)],
    ids=["handles", "pairs"],
)  # fmt: skip
def test_works_that_are_appended_to_a_list_are_waited_for(program, tmp_path, call, edit):
    path = tmp_path / "program.py"
    appended = APPENDED if edit else APPENDED.replace("works[0].wait()", "works[0][0].wait()")
    path.write_text(START + GATHERED.partition("outs =")[0] + appended.format(call=call))
    found = check(program, path, devices=2, options=("--nproc", "2")).findings
    assert {finding["code"] for finding in found} == {"LOC036"}
    assert {fix["new"].strip() for finding in found for fix in finding["fixes"]} == ({edit} if edit else set())


REDUCED = """
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
side, x = torch.cuda.Stream(), torch.ones(64, device="cuda")
{lines}
torch.cuda.synchronize()
dist.destroy_process_group()
"""
READ_BEFORE = """
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x + 1
dist.all_reduce(x)
"""
REDUCED_IN_BLOCK = """
x.mul_(2)
with torch.cuda.stream(side):
    dist.all_reduce(x)
"""
READ_AFTER = """
dist.all_reduce(x)
with torch.cuda.stream(side):
    y = x + 1
"""


@pytest.mark.parametrize(
    ("lines", "edit"),
    [
        (READ_AFTER, "side.wait_stream(torch.cuda.current_stream())"),
        (READ_BEFORE, "torch.cuda.current_stream().wait_stream(side)"),
        (REDUCED_IN_BLOCK, "side.wait_stream(torch.cuda.current_stream())"),
    ],
    ids=["before another stream", "after another stream", "in a block"],
)
def test_collectives_wait_with_the_current_stream(program, tmp_path, lines, edit):
    path = tmp_path / "program.py"
    path.write_text(START + REDUCED.format(lines=lines))
    (finding,) = check(program, path, devices=2, options=("--nproc", "2")).findings
    assert [fix["new"].strip() for fix in finding["fixes"]] == [edit]
    assert finding["code"] != "LOC036" and "async_op" not in finding["why"]


COPIED_ON = """
src = torch.arange(6.0, device="cuda:0")
host = src.to("cpu", non_blocking=True)
{wait}
other = host.to("cuda:{device}")
print(other.sum().item())
"""


def test_a_copy_that_the_host_waits_for_may_be_early(program):
    (finding,) = check_source(program, START + COPIED_ON.format(wait="", device=1)).findings
    assert (finding["code"], finding["uses"][0]["line"]) == ("LOC020", 6)
    back = """
host = torch.zeros(64).pin_memory()
a = host.to("cuda:0", non_blocking=True)
host.copy_(torch.ones(64, device="cuda:1"))
print(a.sum().item())
"""
    (finding,) = check_source(program, START + back).findings
    assert (finding["code"], finding["uses"][0]["line"]) == ("LOC034", 5)


@pytest.mark.parametrize(
    ("wait", "device"),
    [
        ("", 0),
        ("torch.cuda.synchronize(0)", 1),
        ("torch.cuda.current_stream(1).wait_stream(torch.cuda.current_stream(0))", 1),
    ],
)
def test_a_copy_behind_the_other_is_right(program, wait, device):
    checked = check_source(program, START + COPIED_ON.format(wait=wait, device=device))
    assert checked.findings == [], checked.result.describe()


@pytest.mark.parametrize("elements", [128, 4000, 1 << 18])
@pytest.mark.parametrize("fill", ["staging.fill_(step)", "view[:] = step"])
def test_every_refill_counts(program, elements, fill):
    text = f"""
    import torch
    staging = torch.empty({elements}, pin_memory=True)
    view = staging.numpy()
    for step in range(6):
        {fill}
        x = staging.to("cuda", non_blocking=True)
    """
    (finding,) = check_source(program, textwrap.dedent(text), devices=1).findings
    assert (finding["code"], finding["count"]) == ("LOC034", 5)
    assert finding["message"].startswith(f"the host overwrites `{fill.partition('.')[0].partition('[')[0]}` while ")


def test_a_gradient_has_its_own_name(program):
    text = """
import torch
s = torch.cuda.Stream()

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.cuda.stream(s):
            made = grad * 2
        return made

x = torch.ones(4, device="cuda", requires_grad=True)
y = Doubled.apply(x * 1).sum()
y.backward()
torch.cuda.synchronize()
"""
    told = [finding["message"] for finding in check_source(program, text, devices=1).findings]
    assert [each.partition(" on the ")[0] for each in told] == [
        "mul() reads `grad`",
        "mul() in backward reads `made`",
    ]
    assert "before the stream `s` has written it" in told[1]


def test_values_are_read_in_the_words_of_the_program(program):
    early = """
host = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
print(float(host[1]))
"""
    (finding,) = check_source(program, START + early, devices=1).findings
    assert finding["message"].startswith("item() reads the result of a non-blocking copy")
    captured = """
graph, x = torch.cuda.CUDAGraph(), torch.ones(4, device="cuda")
with torch.cuda.graph(graph):
    y = x * 2
    print(y.sum().item() * 0)
"""
    (finding,) = check_source(program, START + captured, devices=1).findings
    assert finding["message"].startswith("item() in the capture of a CUDA graph")
