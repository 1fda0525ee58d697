"""Work on two streams of one card, where a wait is missing, comes too early, or is for another stream."""

import torch
from torch import nn

device = torch.device("cuda")
side, other = torch.cuda.Stream(), torch.cuda.Stream()


def side_reads_early():
    batch = torch.full((64,), 3.0, device=device)
    # ADD 1: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # BUG 1: read-too-early culprit=batch
        doubled = batch * 2  # ALSO: 1
    torch.cuda.current_stream().wait_stream(side)
    return doubled.sum().item()


def result_of_side_used_early():
    batch = torch.full((64,), 3.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        doubled = batch * 2
    return (doubled + 1).sum().item()  # BUG 2: read-too-early culprit=doubled
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (doubled + 1).sum().item()


def waits_for_another_stream():
    batch = torch.full((64,), 3.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        doubled = batch * 2
    torch.cuda.current_stream().wait_stream(other)
    return (doubled + 1).sum().item()  # BUG 3: read-too-early culprit=doubled
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (doubled + 1).sum().item()


def event_recorded_too_early():
    ready = torch.cuda.Event()
    batch = torch.full((64,), 3.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ready.record()
        doubled = batch * 2
    torch.cuda.current_stream().wait_event(ready)
    return (doubled + 1).sum().item()  # BUG 4: read-too-early culprit=doubled
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (doubled + 1).sum().item()


def event_never_recorded():
    ready = torch.cuda.Event()
    batch = torch.full((64,), 3.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        doubled = batch * 2
    ready.wait()
    return (doubled + 1).sum().item()  # BUG 5: read-too-early culprit=doubled
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (doubled + 1).sum().item()


def prefetch_overwrites_the_buffer():
    buffer, following = torch.ones(64, device=device), torch.full((64,), 9.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    doubled = buffer * 2
    # ADD 6: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # BUG 6: overwritten-too-early culprit=buffer
        buffer.copy_(following)  # ALSO: 6
    total = doubled.sum().item()
    torch.cuda.synchronize()
    return total


def weights_updated_during_evaluation():
    torch.manual_seed(0)
    model = nn.Linear(8, 1).to(device)
    inputs = torch.ones(4, 8, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        scores = model(inputs)
    with torch.no_grad():
        model.weight.mul_(0.5)  # BUG 7: overwritten-too-early culprit=model.weight
        # FIX: torch.cuda.current_stream().wait_stream(side)
        # FIX: model.weight.mul_(0.5)
    torch.cuda.current_stream().wait_stream(side)
    return round(scores.sum().item(), 4)


def two_writers():
    total = torch.zeros(64, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total.fill_(1.0)
    total.fill_(2.0)  # BUG 8: overwritten-too-early culprit=total
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: total.fill_(2.0)
    torch.cuda.synchronize()
    return total.sum().item()


def part_of_a_buffer():
    rows = torch.zeros(4, 64, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        rows[2].fill_(1.0)
    first = rows[1].sum()  # another part: nothing wrong
    return (first + rows[2].sum()).item()  # BUG 9: read-too-early culprit=rows
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (first + rows[2].sum()).item()


def gradient_used_early():
    weight = torch.ones(64, device=device, requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (weight * 3).sum().backward()
    return (weight.grad * 2).sum().item()  # BUG 10: read-too-early culprit=weight.grad
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (weight.grad * 2).sum().item()


def gradient_cleared_early():
    weight = torch.ones(64, device=device, requires_grad=True)
    (weight * 3).sum().backward()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        updated = weight - weight.grad
    weight.grad.zero_()  # BUG 11: overwritten-too-early culprit=weight.grad
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: weight.grad.zero_()
    torch.cuda.synchronize()
    return updated.sum().item()


print("side reads early", side_reads_early())
print("result of side used early", result_of_side_used_early())
print("waits for another stream", waits_for_another_stream())
print("event recorded too early", event_recorded_too_early())
print("event never recorded", event_never_recorded())
print("prefetch overwrites the buffer", prefetch_overwrites_the_buffer())
print("weights updated during evaluation", weights_updated_during_evaluation())
print("two writers", two_writers())
print("part of a buffer", part_of_a_buffer())
print("gradient used early", gradient_used_early())
print("gradient cleared early", gradient_cleared_early())
