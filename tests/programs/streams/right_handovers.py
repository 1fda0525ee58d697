"""Buffers, blocks and gradients that are handed from stream to stream and from thread to thread: nothing is wrong here."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

device = torch.device("cuda")
SIZE = 4096


def two_buffers_on_the_device():
    """The copies wait for the work that has used a buffer before, and the work for the copies."""
    copying, working = torch.cuda.Stream(), torch.cuda.Stream()
    host = [torch.full((SIZE,), float(step)).pin_memory() for step in range(6)]
    results = [torch.empty(SIZE, pin_memory=True) for _ in range(6)]
    buffers = [torch.empty(SIZE, device=device) for _ in range(2)]
    filled, used = ([torch.cuda.Event() for _ in range(2)] for _ in range(2))
    for step in range(6):
        slot = step % 2
        with torch.cuda.stream(copying):
            copying.wait_event(used[slot])
            buffers[slot].copy_(host[step], non_blocking=True)
            filled[slot].record(copying)
        with torch.cuda.stream(working):
            working.wait_event(filled[slot])
            results[step].copy_(buffers[slot] * 2 + 1, non_blocking=True)
            used[slot].record(working)
    working.synchronize()
    return [result[0].item() for result in results]


def three_stages():
    """To the device, work, and back, each on a stream of its own."""
    there, working, back = (torch.cuda.Stream() for _ in range(3))
    source = torch.arange(5.0 * SIZE).view(5, SIZE).pin_memory()
    results = torch.empty(5, SIZE).pin_memory()
    for row in range(5):
        with torch.cuda.stream(there):
            x = source[row].to(device, non_blocking=True)
            arrived = there.record_event()
        with torch.cuda.stream(working):
            working.wait_event(arrived)
            x.record_stream(working)
            y = x / 2
            done = working.record_event()
        with torch.cuda.stream(back):
            back.wait_event(done)
            y.record_stream(back)
            results[row].copy_(y, non_blocking=True)
    back.synchronize()
    return results.mean().item()


class Scratch:
    """Tensors that go round among streams, each with the event of its last use."""

    def __init__(self, count):
        self.free = [(torch.empty(SIZE, device=device), None) for _ in range(count)]

    def take(self, stream):
        tensor, event = self.free.pop(0)
        if event is not None:
            stream.wait_event(event)
        return tensor

    def give(self, tensor, stream):
        event = torch.cuda.Event()
        event.record(stream)
        self.free.append((tensor, event))


def scratch_memory_goes_round():
    scratch, streams = Scratch(2), [torch.cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    sums = []
    for step in range(9):
        stream = streams[step % 3]
        with torch.cuda.stream(stream):
            tensor = scratch.take(stream)
            sums.append(tensor.fill_(float(step)).mean())
        scratch.give(tensor, stream)
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    for each in sums:
        each.record_stream(torch.cuda.current_stream())
    return torch.stack(sums).tolist()


def blocks_swapped_out_and_in():
    """As a server of language models does with the blocks of its cache."""
    swapping, main = torch.cuda.Stream(), torch.cuda.current_stream()
    cache, host = torch.zeros(4, SIZE, device=device), torch.zeros(8, SIZE).pin_memory()

    def swap(pairs, out):
        swapping.wait_stream(main)
        with torch.cuda.stream(swapping):
            for on_device, on_host in pairs:
                here, there = cache[on_device], host[on_host]
                (there if out else here).copy_(here if out else there, non_blocking=True)
        return swapping.record_event()

    for block in range(4):
        cache[block].fill_(block + 1)
    main.wait_event(swap([(0, 0), (1, 1)], out=True))
    cache[:2].fill_(10)
    full = cache.mean()
    main.wait_event(swap([(0, 0), (1, 1)], out=False))
    return full.item(), cache.mean().item()


def a_stream_for_each_thread():
    weight, inputs = torch.full((64, 64), 0.5, device=device), torch.ones(8, 16, 64, device=device)
    torch.cuda.synchronize()
    results = [None] * 8

    def work(first):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for number in range(first, 8, 4):
                results[number] = (inputs[number] @ weight).mean()
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(result.item() for result in results)


def uploaded_by_a_pool():
    """Threads of a pool copy; what they give back has the event to wait for."""
    source, uploading = [torch.full((SIZE,), float(n)).pin_memory() for n in range(6)], torch.cuda.Stream()

    def upload(number):
        with torch.cuda.stream(uploading):
            return source[number].to(device, non_blocking=True), uploading.record_event()

    total = 0.0
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(upload, number) for number in range(6)]:
            tensor, copied = future.result()
            copied.wait()
            tensor.record_stream(torch.cuda.current_stream())
            total += tensor.mean().item()
    return total


def gradients_reduced_while_backward_goes_on():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    reducing = torch.cuda.Stream()

    def reduce(parameter):
        reducing.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reducing):
            parameter.grad.div_(2.0)
            parameter.grad.record_stream(reducing)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(4):
        model(torch.full((4, 8), float(step), device=device)).square().mean().backward()
        torch.cuda.current_stream().wait_stream(reducing)
        optimizer.step()
        optimizer.zero_grad()
    return round(sum(parameter.sum().item() for parameter in model.parameters()), 3)


def results_asked_for():
    """Nobody waits: what is done is read, the rest later."""
    waiting, seen = [], []
    for step in range(6):
        host = torch.empty((), pin_memory=True)
        host.copy_(torch.full((), float(step), device=device), non_blocking=True)
        waiting.append((host, torch.cuda.current_stream().record_event()))
        while waiting and waiting[0][1].query():
            seen.append(waiting.pop(0)[0].item())
    for host, copied in waiting:
        copied.synchronize()
        seen.append(host.item())
    return seen


print("two buffers on the device", two_buffers_on_the_device())
print("three stages", three_stages())
print("scratch memory goes round", scratch_memory_goes_round())
print("blocks swapped out and in", blocks_swapped_out_and_in())
print("a stream for each thread", a_stream_for_each_thread())
print("uploaded by a pool", uploaded_by_a_pool())
print("gradients reduced while backward goes on", gradients_reduced_while_backward_goes_on())
print("results asked for", results_asked_for())
