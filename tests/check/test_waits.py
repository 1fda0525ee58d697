"""Every way to wait for a device's default stream, before and after the program's first side stream is made. Each has a
device of its own, so that none can stand in for another; without the waits, each device has its race.
"""

import pytest
from checker import check_source

WAITS = [
    # The host waits for the device.
    "torch.cuda.synchronize({n})",
    'torch.cuda.synchronize("cuda:{n}")',
    "torch.cuda.synchronize(a.device)",
    "torch.cuda.set_device({n}); torch.cuda.synchronize(); torch.cuda.set_device(0)",
    "torch.accelerator.synchronize({n})",
    "run_in_thread(torch.cuda.synchronize, {n})",
    # For the stream.
    "torch.cuda.current_stream({n}).synchronize()",
    "torch.cuda.default_stream({n}).synchronize()",
    "torch.accelerator.current_stream({n}).synchronize()",
    "assert torch.cuda.current_stream({n}).query()",
    "run_in_thread(torch.cuda.default_stream({n}).synchronize)",
    # For an event on it.
    "torch.cuda.current_stream({n}).record_event().synchronize()",
    "assert torch.cuda.default_stream({n}).record_event().query()",
    "event = torch.cuda.Event(); event.record(torch.cuda.current_stream({n})); event.synchronize()",
    "event = torch.Event('cuda:{n}'); event.record(torch.cuda.current_stream({n})); event.synchronize()",
    "run_in_thread(torch.cuda.current_stream({n}).record_event().synchronize)",
    # For a value.
    "a.sum().item()",
    "float(a[0])",
    "assert bool((a == a).all())",
    "a.tolist()",
    "str(a)",
    "a.nonzero()",
    "a[a > 0]",
    "torch.equal(a, a)",
    "run_in_thread(a.sum().item)",
    # For a copy.
    "a.cpu()",
    "a.cpu().numpy()",
    "torch.empty(8).copy_(a)",
    "torch.empty(8).copy_(a, non_blocking=True)",
    "torch.empty(8, pin_memory=True).copy_(a)",
    "torch.ones(8).to(a.device)",
    "torch.ones(8, pin_memory=True).to(a.device)",
    "torch.tensor([1.0, 2.0], device=a.device)",
    "a.to('cuda:0'); torch.cuda.synchronize(0)",
    "a.to('cuda:0').sum().item()",
    # The side stream itself waits, for what was recorded before it was there or is recorded later.
    "events[{n}] = torch.cuda.current_stream({n}).record_event()",
    "events[{n}] = None",
]

PROGRAM = """
import threading
import torch

def run_in_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()

def use(n):
    side = streams[n]
    if n in events:
        side.wait_event(events[n] or torch.cuda.current_stream(n).record_event())
    with torch.cuda.stream(side):
        return made[n] + 1

made, streams, events = {{}}, {{}}, {{}}
for n in range({count}):
    {before}
    made[n] = torch.randn(8, device=f"cuda:{{n}}")
{between}
{waits}
{after}
results = [use(n) for n in made if n > 0]
for n in made:
    torch.cuda.synchronize(n)
"""

STREAMS = "for n in range({count}): streams[n] = torch.cuda.Stream(n)"


def text_of(made: str, waits: list[str]) -> str:
    """The program with its streams made at that place."""
    count = len(WAITS) + 1  # the first device is for copies of the others' work
    places = {place: STREAMS.format(count=count) if place == made else "" for place in ("between", "after")}
    lines = [f"a = made[{n}]; {wait.format(n=n)}" for n, wait in enumerate(waits, 1)]
    before = "streams[n] = torch.cuda.Stream(n)" if made == "before" else "pass"
    return PROGRAM.format(count=count, before=before, waits="\n".join(lines), **places)


@pytest.mark.parametrize("made", ["before", "between", "after"])
def test_every_wait_counts(program, made):
    """The side streams are made before the work, between it and the wait, after the wait."""
    checked = check_source(program, text_of(made, WAITS), devices=len(WAITS) + 1)
    said = [(f["message"], f["why"]) for f in checked.findings]
    assert said == [], said
    checked.result.ok()


@pytest.mark.parametrize("made", ["before", "between", "after"])
def test_without_them_each_device_has_its_race(program, made):
    checked = check_source(program, text_of(made, []), devices=len(WAITS) + 1)
    (finding,) = checked.findings  # one line
    assert (finding["code"], finding["count"]) == ("LOC020", len(WAITS)), checked.result.describe()


def test_the_wait_of_a_capture_counts(program):
    """torch.cuda.graph() synchronizes before it makes its own stream, the program's first."""
    text = """
import torch

x = torch.zeros(64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
side, host = torch.cuda.Stream(), torch.ones(64).pin_memory()
with torch.cuda.stream(side):
    x.copy_(host, non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
graph.replay()
print(y.sum().item())
"""
    checked = check_source(program, text, devices=1)
    assert checked.findings == [], checked.result.describe()
    assert checked.stdout == "128.0\n"


def test_streams_from_before_the_check(program, tmp_path):
    """What is made on one of them, before anything is followed, is not the default stream's."""
    path = tmp_path / "program.py"
    path.write_text("""
import warnings
import locus
locus.simulate(devices=1, history=False)
import torch
old = torch.cuda.Stream()
with warnings.catch_warnings(record=True) as seen, locus.policy("warn"):
    warnings.simplefilter("always")
    with torch.cuda.stream(old):
        x = torch.ones(4, device="cuda")
    new = torch.cuda.Stream()
    with torch.cuda.stream(old):
        y = x + 1
print([str(each.message) for each in seen])
""")
    assert program.run(path).ok().stdout == "[]\n"
