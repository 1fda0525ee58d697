"""Streams that belong to objects, work that hooks and backward put on a stream, and events that are used twice."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
side, other = torch.cuda.Stream(), torch.cuda.Stream()
SIZE = 1 << 14


class Prefetcher:
    def __init__(self, loader):
        self.loader, self.stream = iter(loader), torch.cuda.Stream()
        self.preload()

    def preload(self):
        self.batch = next(self.loader, None)
        if self.batch is not None:
            with torch.cuda.stream(self.stream):
                self.batch = [part.cuda(non_blocking=True) for part in self.batch]

    def next(self):
        batch = self.batch
        if batch is not None:
            for part in batch:
                part.record_stream(torch.cuda.current_stream())
            self.preload()
        return batch


def stream_of_a_prefetcher():
    loader = DataLoader(TensorDataset(torch.arange(32.0).view(8, 4)), batch_size=4, pin_memory=True)
    prefetcher, total = Prefetcher(loader), torch.zeros((), device=device)
    while (batch := prefetcher.next()) is not None:
        total += batch[0].sum()  # BUG 1: read-too-early
        # FIX: torch.cuda.current_stream().wait_stream(prefetcher.stream)
        # FIX: total += batch[0].sum()
    return total.item()


def pack(tensor):
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def unpack(host):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        back = host.to(device, non_blocking=True)  # BUG 2: read-too-early
    # ADD: torch.cuda.current_stream().wait_stream(side)
    back.record_stream(torch.cuda.current_stream())
    return back


def saved_tensors_come_back():
    weight = torch.full((SIZE,), 2.0, device=device, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = (weight * weight).sum()
    loss.backward()
    return weight.grad.sum().item()


def freed_by_backward():
    weight = torch.ones(SIZE, device=device, requires_grad=True)
    plain = (weight * 3).exp()  # ALSO: 3
    scale = torch.full((SIZE,), 2.0, device=device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        scaled = (scale * weight).sum()  # BUG 3: freed-too-early
        # FIX: scale.record_stream(torch.cuda.current_stream())
        # FIX: scaled = (scale * weight).sum()
    torch.cuda.current_stream().wait_stream(side)
    scaled.record_stream(torch.cuda.current_stream())
    del scale
    (plain.sum() + scaled).backward()
    return round(weight.grad.mean().item(), 3)


def gradients_reduced_by_a_hook():
    torch.manual_seed(0)
    model = nn.Linear(8, 1).to(device)

    def reduce(parameter):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            parameter.grad.div_(2.0)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        model(torch.full((4, 8), float(step + 1), device=device)).sum().backward()
        optimizer.step()  # BUG 4: read-too-early
        # FIX: torch.cuda.current_stream().wait_stream(side)
        # FIX: optimizer.step()
        torch.cuda.synchronize()
        optimizer.zero_grad()
    return round(sum(parameter.sum().item() for parameter in model.parameters()), 4)


def event_recorded_again_elsewhere():
    first, second, done = torch.zeros(SIZE, device=device), torch.zeros(SIZE, device=device), torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        first.add_(1)
        done.record()
    with torch.cuda.stream(other):
        second.add_(2)
        done.record()
    torch.cuda.current_stream().wait_event(done)
    return (first + second).sum().item()  # BUG 5: read-too-early culprit=first
    # FIX: torch.cuda.current_stream().wait_stream(side)
    # FIX: return (first + second).sum().item()


def buffers_filled_while_in_use():
    host = [torch.full((SIZE,), float(step)).pin_memory() for step in range(4)]
    buffers, filled = [torch.zeros(SIZE, device=device) for _ in range(2)], [torch.cuda.Event() for _ in range(2)]
    side.wait_stream(torch.cuda.current_stream())
    means = []
    for step in range(4):
        slot = step % 2
        with torch.cuda.stream(side):
            buffers[slot].copy_(host[step], non_blocking=True)  # BUG 6: overwritten-too-early
            # FIX: torch.cuda.current_stream().wait_stream(other)
            # FIX: buffers[slot].copy_(host[step], non_blocking=True)
            filled[slot].record()
        with torch.cuda.stream(other):
            other.wait_event(filled[slot])
            means.append(buffers[slot].mean())
    other.synchronize()
    return [mean.item() for mean in means]


def average_of_the_weights():
    torch.manual_seed(0)
    model = nn.Linear(8, 1).to(device)
    average = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.full((4, 8), float(step), device=device)).square().mean().backward()
        optimizer.step()  # BUG 7: overwritten-too-early
        # FIX: torch.cuda.current_stream().wait_stream(side)
        # FIX: optimizer.step()
        optimizer.zero_grad()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for mean, parameter in zip(average, model.parameters()):
                mean.lerp_(parameter, 0.1)
    torch.cuda.synchronize()
    return round(sum(mean.sum().item() for mean in average), 4)


print("stream of a prefetcher", stream_of_a_prefetcher())
print("saved tensors come back", saved_tensors_come_back())
print("freed by backward", freed_by_backward())
print("gradients reduced by a hook", gradients_reduced_by_a_hook())
print("event recorded again elsewhere", event_recorded_again_elsewhere())
print("buffers filled while in use", buffers_filled_while_in_use())
print("average of the weights", average_of_the_weights())
