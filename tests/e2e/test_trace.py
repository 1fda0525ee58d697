"""`check --trace`: what a viewer would show of a run."""

import json

from locus.process import tracing

DEADLINE = 300
PROGRAM = """
import torch
x = torch.ones(256, device="cuda:0")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
y = (y + torch.ones(256)).to("cuda:1")
print(y.sum().item())
"""


def test_a_trace_of_devices_and_streams(program, tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    words = ["check", "-q", "--trace", "trace.json", "prog.py"]
    result = program.call("locus.commands.cli:main", words, cwd=tmp_path, deadline=DEADLINE)
    assert result.code == 1 and result.stdout == "768.0\n", result.describe()
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert trace["displayTimeUnit"] == "ms" and all({"ph", "name", "pid"} <= event.keys() for event in events)
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    seen = [(lanes[event["tid"]], event["name"]) for event in events if event["ph"] == "X"]
    assert ("cuda:0", "ones") in seen and ("cuda:0 stream 1", "mul") in seen and ("cuda:1", "sum") in seen, seen
    assert ("cuda:0", "copy cuda:0 → cuda:1") in seen and ("host", "wait: .item()") in seen, seen
    copy = next(event for event in events if event["name"] == "copy cuda:0 → cuda:1")
    assert copy["args"]["bytes"] == 1024 and copy["args"]["line"].endswith("prog.py:9")
    marks = [event for event in events if event["ph"] == "i"]
    assert (
        len(marks) == 1 and marks[0]["name"].startswith("LOC004: ") and marks[0]["args"]["line"].endswith("prog.py:9")
    )
    used = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"] == "memory cuda:0"]
    assert max(used) >= 2048
    times = [event["ts"] for event in events if event["ph"] == "X"]
    assert all(time >= 0 for time in times)


def test_ranks_are_processes(program, tmp_path):
    (tmp_path / "ranks.py").write_text(
        "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "torch.cuda.set_device(dist.get_rank())\nx = torch.ones(4, device='cuda')\ndist.all_reduce(x)\n"
        "print(x.sum().item())\ndist.destroy_process_group()\n"
    )
    words = ["check", "--nproc", "2", "--trace", "trace.json", "ranks.py"]
    result = program.call("locus.commands.cli:main", words, cwd=tmp_path, deadline=DEADLINE)
    assert result.code == 0, result.describe()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1"}
    assert {event["pid"] for event in events if event["ph"] == "X" and event["name"] == "ones"} == {0, 1}


BACKWARD = """
import torch
first = torch.ones(64, 64, device="cuda:0", requires_grad=True)
second = torch.ones(64, 64, device="cuda:1", requires_grad=True)
a, b = first, second
for _ in range(30):
    a, b = a.sin() @ first, b.sin() @ second
(a.sum() + b.sum().to("cuda:0")).backward()
"""
NEEDED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "i": {"name", "cat", "ts", "pid", "tid", "s", "args"},
    "C": {"name", "ts", "pid", "args"},
    "M": {"name", "pid", "args"},
}


def check_format(trace):
    """As the Trace Event Format has it: each event's fields; slices of a lane inside of each other or apart; names."""
    lanes, named = {}, set()
    for event in trace["traceEvents"]:
        assert NEEDED[event["ph"]] <= event.keys(), event
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0 and event.get("s", "p") in ("g", "p", "t")
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
        elif event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
        elif event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
    assert lanes and lanes.keys() <= named
    for slices in lanes.values():
        open_ends = []
        for event in sorted(slices, key=lambda event: (event["ts"], -event["dur"])):
            while open_ends and open_ends[-1] <= event["ts"]:
                open_ends.pop()
            end = event["ts"] + event["dur"]
            assert not open_ends or end <= open_ends[-1], f"{event} ends after what it is in"
            open_ends.append(end)


def test_the_format_is_kept(program, tmp_path):
    (tmp_path / "prog.py").write_text(BACKWARD)
    words = ["check", "-q", "--trace", "trace.json", "prog.py"]
    result = program.call("locus.commands.cli:main", words, cwd=tmp_path, deadline=DEADLINE)
    assert result.code == 0, result.describe()
    check_format(json.loads((tmp_path / "trace.json").read_text()))


def test_threads_of_the_host_have_lanes_of_their_own():
    slices = [(0, 10), (2, 6), (5, 12), (13, 1), (14.5, 2)]  # (begin, duration)
    events = [
        {"ph": "X", "cat": "operator", "name": "f", "ts": begin, "dur": duration, "pid": 3, "tid": 0, "args": {}}
        for begin, duration in slices
    ]
    names = [{"ph": "M", "name": "thread_name", "pid": 3, "tid": 0, "args": {"name": "host"}}]
    names += tracing._apart(events)
    check_format({"traceEvents": events + names})
    assert [event["tid"] for event in events] == [0, 0, 4097, 0, 0]
    assert [event["args"]["name"] for event in names if event["name"] == "thread_name"] == ["host", "host, thread 2"]


RACE = """
import torch
x = torch.ones(256, device="cuda")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.synchronize()
print(y.sum().item())
"""


def test_every_finding_has_a_mark(program, tmp_path):
    (tmp_path / "race.py").write_text(RACE)
    words = ["check", "-q", "--trace", "trace.json", "--json", "report.json", "race.py"]
    result = program.call("locus.commands.cli:main", words, cwd=tmp_path, deadline=DEADLINE)
    assert result.code == 1, result.describe()
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_format(trace)
    marks = " ".join(event["name"] for event in trace["traceEvents"] if event["ph"] == "i")
    findings = json.loads((tmp_path / "report.json").read_text())["findings"]
    assert findings and all(f"{finding['code']}: " in marks for finding in findings), marks
    assert "a finding" not in marks
