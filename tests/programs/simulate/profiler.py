# compare: none (times differ)
# devices: 1
# says: locus: the profiler shows CPU time only on simulated devices
"""torch.profiler with its schedule, record_function, the autograd profiler and NVTX ranges around a training loop."""

import json
import os
import tempfile

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(16, 8).to(device)
activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
ready, tables = [], []


def one_step():
    with record_function("## forward ##"):
        loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def on_ready(prof):
    ready.append({event.key for event in prof.key_averages()})
    tables.append(prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=5))


with profile(
    activities=activities, schedule=schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=on_ready,
    record_shapes=True, profile_memory=True, with_stack=False,
) as prof:
    for _ in range(5):
        one_step()
        prof.step()
print("ready", len(ready), "named", "## forward ##" in ready[0], "ops", any(n.startswith("aten::") for n in ready[0]))
print("table", "Self CPU" in tables[0])

with profile(activities=activities) as prof:
    one_step()
path = os.path.join(tempfile.mkdtemp(), "trace.json")
prof.export_chrome_trace(path)
with open(path) as file:
    print("trace", len(json.load(file)["traceEvents"]) > 0)

with torch.autograd.profiler.profile() as old:
    one_step()
print("autograd profiler", len(old.function_events) > 0)

if device.type == "cuda":
    torch.cuda.nvtx.range_push("epoch")
    torch.cuda.nvtx.mark("here")
    with torch.cuda.nvtx.range("step"):
        loss = one_step()
    torch.cuda.nvtx.range_pop()
    with torch.autograd.profiler.emit_nvtx():
        loss = one_step()
    print("nvtx", loss.item() > 0)
