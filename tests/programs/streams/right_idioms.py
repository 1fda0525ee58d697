"""Prefetchers, offloading and overlapped work as good programs have them: nothing is wrong here."""

import threading
import queue

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
torch.manual_seed(0)
dataset = TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16.0).view(16, 1))


class DataPrefetcher:
    """As in NVIDIA's examples."""

    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.cuda(non_blocking=True)
            self.next_target = self.next_target.cuda(non_blocking=True)
            self.next_input = self.next_input.float().sub_(2.0).div_(4.0)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        inputs, target = self.next_input, self.next_target
        if inputs is not None:
            inputs.record_stream(torch.cuda.current_stream())
        if target is not None:
            target.record_stream(torch.cuda.current_stream())
        self.preload()
        return inputs, target


def prefetch_loader(loader):
    """As in timm."""
    stream = torch.cuda.Stream()
    first = True
    for next_input, next_target in loader:
        with torch.cuda.stream(stream):
            next_input = next_input.to(device=device, non_blocking=True)
            next_target = next_target.to(device=device, non_blocking=True)
            next_input = next_input.sub_(1.0).div_(2.0)
        if not first:
            yield inputs, target  # noqa: F821
        else:
            first = False
        torch.cuda.current_stream().wait_stream(stream)
        inputs, target = next_input, next_target
        inputs.record_stream(torch.cuda.current_stream())
        target.record_stream(torch.cuda.current_stream())
    yield inputs, target


def pipelined(loader):
    """As in torchrec: the copy of the next batch and the work on this one, with events."""
    copies, main = torch.cuda.Stream(), torch.cuda.current_stream()
    waiting = []
    for inputs, target in loader:
        with torch.cuda.stream(copies):
            batch = inputs.to(device, non_blocking=True), target.to(device, non_blocking=True)
            ready = copies.record_event()
        waiting.append((batch, ready))
        if len(waiting) < 2:
            continue
        (inputs, target), ready = waiting.pop(0)
        main.wait_event(ready)
        for each in (inputs, target):
            each.record_stream(main)
        yield inputs, target
    for (inputs, target), ready in waiting:
        main.wait_event(ready)
        yield inputs, target


def threaded(loader):
    """A thread of its own copies; a queue hands over."""
    made = queue.Queue(maxsize=2)
    stream = torch.cuda.Stream()

    def work():
        for inputs, target in loader:
            with torch.cuda.stream(stream):
                batch = inputs.to(device, non_blocking=True), target.to(device, non_blocking=True)
                ready = torch.cuda.Event()
                ready.record(stream)
            made.put((batch, ready))
        made.put(None)

    thread = threading.Thread(target=work)
    thread.start()
    while (item := made.get()) is not None:
        (inputs, target), ready = item
        ready.wait()
        for each in (inputs, target):
            each.record_stream(torch.cuda.current_stream())
        yield inputs, target
    thread.join()


def train(batches):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for inputs, target in batches:
        loss = nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return round(torch.stack(losses).sum().item(), 3)


def loader():
    return DataLoader(dataset, batch_size=4, pin_memory=True)


def from_prefetcher():
    prefetcher = DataPrefetcher(loader())
    inputs, target = prefetcher.next()
    while inputs is not None:
        yield inputs, target
        inputs, target = prefetcher.next()


def double_buffer():
    """Two pinned buffers, an event for each."""
    buffers = [torch.empty(4, 4, pin_memory=True) for _ in range(2)]
    copied = [torch.cuda.Event(), torch.cuda.Event()]
    total = torch.zeros((), device=device)
    for step in range(6):
        slot = step % 2
        copied[slot].synchronize()
        buffers[slot].fill_(float(step))
        batch = buffers[slot].to(device, non_blocking=True)
        copied[slot].record()
        total += batch.sum()
    return total.item()


def results_on_the_way():
    """Losses go to a pinned ring; each row is read when its event is done."""
    ring, written = torch.zeros(2, 4, pin_memory=True), [torch.cuda.Event(), torch.cuda.Event()]
    seen = 0.0
    for step in range(5):
        row = step % 2
        ring[row].copy_(torch.full((4,), float(step), device=device), non_blocking=True)
        written[row].record()
        if step > 0:
            written[1 - row].synchronize()
            seen += float(ring[1 - row].sum())
    return seen


def offload():
    """Activations go to pinned memory on a stream of their own, and come back."""
    stream, main = torch.cuda.Stream(), torch.cuda.current_stream()
    total = 0.0
    for step in range(3):
        activation = torch.full((1 << 16,), float(step), device=device)
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            host = torch.empty(1 << 16, pin_memory=True)
            host.copy_(activation, non_blocking=True)
        activation.record_stream(stream)
        del activation
        with torch.cuda.stream(stream):
            back = host.to(device, non_blocking=True)
        main.wait_stream(stream)
        back.record_stream(main)
        total += back.sum().item()
    return total


def saved_on_the_host():
    weight = torch.ones(4, 4, device=device, requires_grad=True)
    with save_on_cpu(pin_memory=True):
        loss = (weight * weight).sum().square()
    loss.backward()
    return weight.grad.sum().item()


def branches():
    """Two branches of a model on two streams, forward and backward."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.manual_seed(0)
    parts = [nn.Linear(4, 4).to(device) for _ in streams]
    inputs, main = torch.ones(2, 4, device=device), torch.cuda.current_stream()
    outputs = []
    for stream, part in zip(streams, parts):
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            outputs.append(part(inputs))
    for stream, output in zip(streams, outputs):
        main.wait_stream(stream)
        output.record_stream(main)
    sum(outputs).sum().backward()
    return round(sum(part.weight.grad.sum().item() for part in parts), 3)


def statistics_on_the_side():
    """A copy is kept by a side stream that the host waits for at the end."""
    side, kept = torch.cuda.Stream(), []
    value = torch.zeros(1 << 12, device=device)
    for _ in range(3):
        value = value + 1
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            kept.append(value.mean())
        value.record_stream(side)
    side.synchronize()
    return sum(each.item() for each in kept)


def freed_after_the_wait():
    """Without record_stream: the tensor's own stream waits before the memory is used again."""
    side = torch.cuda.Stream()
    total = torch.zeros(1 << 12, device=device)
    for step in range(3):
        batch = torch.full((1 << 12,), float(step), device=device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total += batch
        torch.cuda.current_stream().wait_stream(side)
        del batch
    return total[0].item()


print("prefetcher", train(from_prefetcher()))
print("prefetch loader", train(prefetch_loader(loader())))
print("pipelined", train(pipelined(loader())))
print("threaded", train(threaded(loader())))
print("double buffer", double_buffer())
print("results on the way", results_on_the_way())
print("offload", offload())
print("saved on the host", saved_on_the_host())
print("branches", branches())
print("statistics on the side", statistics_on_the_side())
print("freed after the wait", freed_after_the_wait())
