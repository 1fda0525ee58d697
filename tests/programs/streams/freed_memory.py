"""Tensors that go back to the allocator while another stream still uses them, and offloading to the host."""

import torch

device = torch.device("cuda")
side = torch.cuda.Stream()
SIZE = 1 << 16


def freed_while_side_uses_it():
    batch = torch.full((SIZE,), 1.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        doubled = batch * 2  # BUG 1: freed-too-early
        # FIX: batch.record_stream(torch.cuda.current_stream())
        # FIX: doubled = batch * 2
    del batch
    following = torch.full((SIZE,), 9.0, device=device)  # ALSO: 1
    torch.cuda.current_stream().wait_stream(side)
    return (doubled[0] + following[0]).item()


def prefetched_batch_freed():
    total = torch.zeros(SIZE, device=device)
    torch.cuda.synchronize()
    for step in range(3):
        with torch.cuda.stream(side):
            batch = torch.full((SIZE,), float(step), device=device)  # ALSO: 2
        torch.cuda.current_stream().wait_stream(side)
        total += batch  # BUG 2: freed-too-early
        # FIX: batch.record_stream(torch.cuda.current_stream())
        # FIX: total += batch
        del batch
    return total[0].item()


def offloaded_and_freed():
    host = torch.zeros(SIZE, pin_memory=True)
    activation = torch.full((SIZE,), 4.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host.copy_(activation, non_blocking=True)  # BUG 3: freed-too-early
        # FIX: activation.record_stream(torch.cuda.current_stream())
        # FIX: host.copy_(activation, non_blocking=True)
    del activation
    following = torch.full((SIZE,), 9.0, device=device)  # ALSO: 3
    torch.cuda.synchronize()
    return host[0].item() + following[0].item()


def offloaded_too_early():
    host = torch.zeros(SIZE, pin_memory=True)
    activation = torch.full((SIZE,), 4.0, device=device)
    # ADD 4: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # BUG 4: read-too-early culprit=activation
        host.copy_(activation, non_blocking=True)  # ALSO: 4
    side.synchronize()
    return host[0].item()


def loaded_and_used_too_early():
    host = torch.full((SIZE,), 4.0, pin_memory=True)
    with torch.cuda.stream(side):
        weight = host.to(device, non_blocking=True)
    total = (weight * 2).sum()  # BUG 5: read-too-early culprit=weight
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: total = (weight * 2).sum()
    weight.record_stream(torch.cuda.current_stream())
    return total.item()


print("freed while side uses it", freed_while_side_uses_it())
print("prefetched batch freed", prefetched_batch_freed())
print("offloaded and freed", offloaded_and_freed())
print("offloaded too early", offloaded_too_early())
print("loaded and used too early", loaded_and_used_too_early())
