"""Results go to pinned memory without waiting; before the host reads them it learns, in one way or another, that they are
there. Rows of a ring are awaited one by one while the others are still under way."""

import time

import torch

device = torch.device("cuda")
values = torch.arange(8.0, device=device)
host = torch.empty(8, pin_memory=True)
done = torch.cuda.Event()


def ask_the_event():
    while not done.query():
        time.sleep(0.0005)


def ask_the_stream():
    while not torch.cuda.current_stream().query():
        time.sleep(0.0005)


def wait_on_another_stream():
    other = torch.cuda.Stream()
    other.wait_event(done)
    other.synchronize()


WAYS = {
    "event": done.synchronize,
    "event asked": ask_the_event,
    "stream": lambda: torch.cuda.current_stream().synchronize(),
    "stream asked": ask_the_stream,
    "device": torch.cuda.synchronize,
    "other stream": wait_on_another_stream,
    "item": lambda: values.sum().item(),
    "copy to the host": lambda: values.cpu(),
    "copy from the host": lambda: torch.ones(3).to(device),
    "mask": lambda: values[values > 3],
    "nonzero": lambda: torch.nonzero(values),
    "condition": lambda: bool((values > 3).any()),
}
for name, wait in WAYS.items():
    host.copy_(values, non_blocking=True)
    done.record()
    wait()
    print(f"{name}: {host.sum().item()}")

# A ring in one piece of memory: one row is read while the next one is being filled.
ring = torch.zeros(3, 8, pin_memory=True)
filled = [torch.cuda.Event() for _ in ring]
for step in range(7):
    ring[step % 3].copy_(values * step, non_blocking=True)
    filled[step % 3].record()
    if step >= 2:
        filled[(step - 2) % 3].synchronize()
        print("row", step - 2, ring[(step - 2) % 3].tolist()[:3])
torch.cuda.synchronize()

# Every other row: those between belong to the card meanwhile.
rows = torch.zeros(4, 2, pin_memory=True)
rows[1].copy_(values[:2], non_blocking=True)
rows[3].copy_(values[2:4], non_blocking=True)
print("even rows", rows[::2].sum().item())
torch.cuda.synchronize()
print("all rows", rows.sum().item())

# Memory that was freed while a copy to it had not been awaited is somebody else's now.
for size in (64, 64, 64):
    torch.empty(size, pin_memory=True).copy_(values.repeat(8), non_blocking=True)
    again = torch.zeros(size).pin_memory()
    print("fresh", again.sum().item())
