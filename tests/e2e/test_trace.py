"""`check --trace`: what a viewer would show of a run."""

import json

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
