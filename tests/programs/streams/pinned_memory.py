"""Copies between pinned memory and a card: results that the host reads, and sources that it overwrites, too early."""

import torch

device = torch.device("cuda")
side = torch.cuda.Stream()


def result_read():
    scores = torch.full((64,), 3.0, device=device)
    host = torch.zeros(64, pin_memory=True)
    host.copy_(scores, non_blocking=True)
    return host.sum().item()  # BUG 1: read-too-early culprit=host
    # FIX: torch.cuda.current_stream().synchronize()
    # FIX: return host.sum().item()


def moved_to_the_host():
    scores = torch.full((64,), 3.0, device=device)
    host = scores.to("cpu", non_blocking=True)
    return max(host.tolist())  # BUG 2: read-too-early culprit=host
    # FIX: torch.cuda.synchronize()
    # FIX: return max(host.tolist())


def read_by_numpy():
    scores = torch.full((64,), 3.0, device=device)
    host = torch.zeros(64, pin_memory=True)
    array = host.numpy()
    host.copy_(scores, non_blocking=True)
    return float(array.sum())  # BUG 3: read-too-early culprit=array
    # FIX: torch.cuda.synchronize()
    # FIX: return float(array.sum())


def another_event():
    host = torch.zeros(2, 64, pin_memory=True)
    copied = [torch.cuda.Event(), torch.cuda.Event()]
    for row in range(2):
        host[row].copy_(torch.full((64,), float(row + 1), device=device), non_blocking=True)
        copied[row].record()
    copied[0].synchronize()
    return host[1].sum().item()  # BUG 4: read-too-early culprit=host
    # FIX: copied[1].synchronize()
    # FIX: return host[1].sum().item()


def another_stream():
    scores = torch.full((64,), 3.0, device=device)
    host = torch.zeros(64, pin_memory=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host.copy_(scores, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return host.sum().item()  # BUG 5: read-too-early culprit=host
    # FIX: side.synchronize()
    # FIX: return host.sum().item()


def source_overwritten():
    host = torch.ones(64, pin_memory=True)
    there = host.to(device, non_blocking=True)
    host.copy_(torch.full((64,), 9.0))  # BUG 6: overwritten-too-early culprit=host
    # FIX: torch.cuda.current_stream().synchronize()
    # FIX: host.copy_(torch.full((64,), 9.0))
    return there.sum().item()


def source_overwritten_in_place():
    host = torch.ones(64, pin_memory=True)
    there = host.to(device, non_blocking=True)
    host.zero_()  # BUG 7: overwritten-too-early culprit=host
    # FIX: torch.cuda.current_stream().synchronize()
    # FIX: host.zero_()
    return there.sum().item()


def source_overwritten_by_numpy():
    host = torch.ones(64, pin_memory=True)
    array = host.numpy()
    there = host.to(device, non_blocking=True)
    array[:] = 9.0  # BUG 8: overwritten-too-early culprit=array
    # FIX: torch.cuda.current_stream().synchronize()
    # FIX: array[:] = 9.0
    return there.sum().item()


def ring_of_slots():
    ring = torch.zeros(2, 64, pin_memory=True)
    batches = []
    for step in range(4):
        ring[step % 2].copy_(torch.full((64,), float(step)))  # BUG 9: overwritten-too-early culprit=ring
        # FIX: torch.cuda.current_stream().synchronize()
        # FIX: ring[step % 2].copy_(torch.full((64,), float(step)))
        batches.append(ring[step % 2].to(device, non_blocking=True))
    return sum(batch.sum().item() for batch in batches)


print("result read", result_read())
print("moved to the host", moved_to_the_host())
print("read by numpy", read_by_numpy())
print("another event", another_event())
print("another stream", another_stream())
print("source overwritten", source_overwritten())
print("source overwritten in place", source_overwritten_in_place())
print("source overwritten by numpy", source_overwritten_by_numpy())
print("ring of slots", ring_of_slots())
