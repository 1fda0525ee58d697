# compare: none (a CPU has no streams)
# devices: 2
"""Side streams and events: prefetching on a copy stream, ordering, timing."""

import torch
from torch import nn

if not torch.cuda.is_available():
    print("no CUDA device: nothing to do")
    raise SystemExit(0)

device = torch.device("cuda:0")


class Prefetcher:
    """Copies the next batch on a stream of its own while the model works on this one."""

    def __init__(self, batches):
        self.batches = iter(batches)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        host = next(self.batches, None)
        if host is None:
            self.following = None
            return
        with torch.cuda.stream(self.stream):
            assert torch.cuda.current_stream() == self.stream
            self.following = host.to(device, non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.following
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())
            self.preload()
        return batch


torch.manual_seed(0)
batches = [torch.randn(8, 4).pin_memory() for _ in range(5)]
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
prefetcher, count = Prefetcher(batches), 0
while (batch := prefetcher.next()) is not None:
    assert torch.equal(batch.cpu(), batches[count])
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    count += 1
print("batches", count)

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(10):
    batch = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
end.record()
torch.cuda.synchronize()
print("finished", start.query() and end.query(), "took time", start.elapsed_time(end) >= 0)

default, side = torch.cuda.default_stream(), torch.cuda.Stream(priority=-1)
print("default is current", torch.cuda.current_stream() == default, "side differs", side != default)
print("same stream, same hash", hash(side) == hash(torch.cuda.Stream(stream_id=side.stream_id, device_index=side.device_index, device_type=side.device_type)))
done = torch.cuda.Event()
with torch.cuda.stream(side):
    value = torch.arange(10, device=device).sum()
    done.record()
done.wait(torch.cuda.current_stream())
done.synchronize()
side.synchronize()
print("value", value.item(), "query", side.query(), done.query())
side.wait_event(side.record_event())

with torch.cuda.device(1):
    far = torch.cuda.Stream()
    print("far", far.device, torch.cuda.current_stream().device, torch.cuda.current_device())
with torch.cuda.stream(far):  # entering a stream of another device switches to that device
    print("inside", torch.cuda.current_device(), torch.ones(1, device="cuda").device)
print("outside", torch.cuda.current_device())

late = torch.cuda.Event(enable_timing=False)
late.record()
try:
    late.elapsed_time(late)
except (RuntimeError, ValueError) as error:
    print("no timing:", type(error).__name__)
external = torch.cuda.ExternalStream(side.cuda_stream)
print("external", external.cuda_stream == side.cuda_stream)
