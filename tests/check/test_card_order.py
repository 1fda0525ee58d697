"""The order of streams on real cards, which PyTorch's GPU trace tells: simulated devices, which call it too, play the
card. Races are found by what the program calls; where an order may exist that nobody sees, nothing is said."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from card_races import RIGHT, WRONG, each_is_found_once
from checker import DEADLINE
from corpus import fixed, needs_two_devices, programs

AS_REAL = Path(__file__).parent / "run_as_real.py"
ON_ONE_CARD = [path for path in programs("correct") if not needs_two_devices(path)]
RACE = """
import torch
from locus._load import load_bridge
side = torch.cuda.Stream()
batch = torch.full((64,), 3.0, device="cuda")
{between}
with torch.cuda.stream(side):
    doubled = batch * 2
torch.cuda.synchronize()
print("followed", load_bridge().CardOrder.is_followed())
"""
WAITS = {
    "nothing": "",
    "the default stream": "side.wait_stream(torch.cuda.current_stream())",
    "an event": "torch.cuda.current_stream().record_event().wait(side)",
    "the host, for an event": "torch.cuda.current_stream().record_event().synchronize()",
    "the host, for the stream": "torch.cuda.current_stream().synchronize()",
    "the host, for the device": "torch.cuda.synchronize()",
    "the host, by a value": "batch.sum().item()",
    "the host, by a copy": "batch.cpu()",
    "a question to an event": "event = torch.cuda.current_stream().record_event()\nwhile not event.query():\n    pass",
    "a question to the stream": "while not torch.cuda.current_stream().query():\n    pass",
    "the allocator": "torch.cuda.empty_cache()",
}
STOPS = {
    "a capture": "with torch.cuda.graph(torch.cuda.CUDAGraph()):\n    torch.ones(4, device='cuda') + 1",
    "a collective": (
        "import torch.distributed as dist\n"
        "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\n"
        "dist.all_reduce(torch.ones(4, device='cuda'))"
    ),
    "another library": "import ctypes\nlibrary = ctypes.CDLL(None)\nasked = lambda: library.cudaDeviceSynchronize()",
}


@dataclass(frozen=True)
class Run:
    report: dict
    stdout: str

    @property
    def findings(self):
        return self.report["findings"]

    @property
    def said(self):
        return "\n".join(f"{f['code']} line {f['cause']['line']}: {f['message']}" for f in self.findings)


def as_real(program, path, folder) -> Run:
    report = folder / "report.json"
    result = program.run(AS_REAL, str(path), str(report), deadline=DEADLINE).ok()
    return Run(json.loads(report.read_text()), result.stdout)


def run_text(program, text, folder) -> Run:
    path = folder / "program.py"
    path.write_text(text)
    return as_real(program, path, folder)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_races_are_found(program, tmp_path, path):
    each_is_found_once(as_real(program, path, tmp_path).findings, path)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_twins_are_silent(program, tmp_path, path):
    run = as_real(program, fixed(path), tmp_path)
    assert not run.findings, run.said


@pytest.mark.parametrize("path", RIGHT + ON_ONE_CARD, ids=lambda path: path.stem)
def test_right_programs_are_silent(program, tmp_path, path):
    run = as_real(program, path, tmp_path)
    assert not run.findings, run.said


@pytest.mark.parametrize("waits", WAITS)
def test_every_way_to_wait_is_seen(program, tmp_path, waits):
    run = run_text(program, RACE.format(between=WAITS[waits]), tmp_path)
    assert [f["code"] for f in run.findings] == ([] if WAITS[waits] else ["LOC020"]), run.said
    assert "followed True" in run.stdout


@pytest.mark.parametrize("what", STOPS)
def test_nothing_is_said_where_an_order_may_be_unseen(program, tmp_path, what):
    run = run_text(program, RACE.format(between=STOPS[what]), tmp_path)
    assert not run.findings, run.said
    assert "followed False" in run.stdout
    assert sum("races between streams" in note for note in run.report["notes"]) == 1, run.report["notes"]


def test_what_is_in_place_is_seen(program, tmp_path):
    text = RACE.format(between="side.wait_stream(torch.cuda.current_stream())") + (
        "with torch.cuda.stream(side):\n    batch.zero_()\nbatch.mul_(2.0)\n"
    )
    run = run_text(program, text, tmp_path)
    (finding,) = run.findings
    assert finding["code"] == "LOC034"
    assert not run.report["notes"]


def test_geometry_is_no_access(program, tmp_path):
    text = RACE.format(between="side.wait_stream(torch.cuda.current_stream())") + (
        "doubled.t_()\nempty, like = torch.empty_like(batch), torch.zeros_like(doubled)\n"
        "host = torch.empty(64, pin_memory=True)\nhost.copy_(batch, non_blocking=True)\nprint(host.is_pinned())\n"
    )
    run = run_text(program, text.replace("torch.cuda.synchronize()\n", ""), tmp_path)
    assert not run.findings, run.said


def test_other_listeners_of_the_trace_hear_it(program, tmp_path):
    run = run_text(
        program,
        "import torch\nimport torch.cuda._gpu_trace as trace\nheard = []\n"
        "trace.register_callback_for_event_record(lambda *_: heard.append('event'))\n"
        "trace.register_callback_for_memory_allocation(lambda *_: heard.append('memory'))\n"
        "torch._C._activate_gpu_trace()\n"
        "x = torch.ones(4, device='cuda')\ntorch.cuda.current_stream().record_event()\nprint(sorted(set(heard)))\n",
        tmp_path,
    )
    assert "['event', 'memory']" in run.stdout
