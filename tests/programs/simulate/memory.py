# compare: none (a CPU has no memory counters)
# devices: 1
"""Memory: counters before and after, and the classic loop that halves its batch when the card is full."""

import gc

import torch
from torch import nn

if not torch.cuda.is_available():
    print("no CUDA device: nothing to do")
    raise SystemExit(0)

device = torch.device("cuda")
before = torch.cuda.memory_allocated()
x = torch.empty(1000, device=device)
print("1000 floats take", torch.cuda.memory_allocated() - before)
y = torch.empty(1, dtype=torch.uint8, device=device)
print("one byte takes", torch.cuda.memory_allocated() - before - 4096)
view = x[10:20].view(5, 2)
print("a view takes", torch.cuda.memory_allocated() - before - 4096 - 512)
del x
print("held by its view", torch.cuda.memory_allocated() - before)
del view, y
print("given back", torch.cuda.memory_allocated() - before)

torch.cuda.reset_peak_memory_stats()
base = torch.cuda.memory_allocated()
big = torch.zeros(1 << 20, device=device)
del big
print("peak", torch.cuda.max_memory_allocated() - base, "now", torch.cuda.memory_allocated() - base)
print("reserved covers", torch.cuda.memory_reserved() >= torch.cuda.memory_allocated())
torch.cuda.empty_cache()
free, total = torch.cuda.mem_get_info()
print("free is less than total", 0 < free <= total, total == torch.cuda.get_device_properties(0).total_memory)


def step(model, batch):
    out = model(torch.ones(batch, 1024, device=device))
    out.square().mean().backward()
    model.zero_grad(set_to_none=True)
    return out.shape[0]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
# As if most of the card were taken: the input alone is 4 KiB a row. A card's matrix library takes tens of MiB itself.
torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + (160 << 20)) / total))
batch, retries = 1 << 16, 0
while True:
    try:
        done = step(model, batch)
        break
    except torch.OutOfMemoryError as error:
        first = str(error).splitlines()[0]
        assert first.startswith("CUDA out of memory. Tried to allocate"), first
        assert isinstance(error, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    model.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.empty_cache()
    batch, retries = batch // 2, retries + 1
print("retried", retries > 0, "went on with a smaller batch", 0 < done < 1 << 16)
stats = torch.cuda.memory_stats()
print("num_ooms", stats["num_ooms"] == retries, "current", stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated())
