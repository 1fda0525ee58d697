"""Pipelines, offloading and checkpoints in the shape that libraries give them: nothing is wrong here."""

import collections
import io
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
torch.manual_seed(0)
dataset = TensorDataset(torch.arange(96.0).view(24, 4), torch.arange(24.0).view(24, 1))


def loader(**options):
    return DataLoader(dataset, batch_size=4, pin_memory=True, **options)


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)


class Pipeline:
    """Three batches in flight, as in recommender systems: one is copied, one is looked up, one is trained on."""

    def __init__(self, model, optimizer, table):
        self.model, self.optimizer, self.table = model, optimizer, table
        self.copying, self.looking_up = torch.cuda.Stream(), torch.cuda.Stream()
        self.waiting = collections.deque()

    def start_copy(self, batches):
        batch = next(batches, None)
        if batch is None:
            return
        with torch.cuda.stream(self.copying):
            moved = [part.to(device, non_blocking=True) for part in batch]
        self.waiting.append(moved)

    def start_lookup(self, moved):
        with torch.cuda.stream(self.looking_up):
            self.looking_up.wait_stream(self.copying)
            for part in moved:
                part.record_stream(self.looking_up)
            moved.append(self.table[moved[0][:, 0].long() % len(self.table)])

    def progress(self, batches):
        main = torch.cuda.current_stream()
        if not self.waiting:
            self.start_copy(batches)
            self.start_lookup(self.waiting[0])
            self.start_copy(batches)
        main.wait_stream(self.looking_up)
        inputs, target, rows = self.waiting.popleft()
        for part in (inputs, target, rows):
            part.record_stream(main)
        self.start_copy(batches)
        loss = nn.functional.mse_loss(self.model(inputs + rows), target)
        if self.waiting:
            self.start_lookup(self.waiting[0])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def three_in_flight():
    model = make_model()
    pipeline = Pipeline(model, torch.optim.SGD(model.parameters(), lr=0.001), torch.linspace(0, 1, 8, device=device)[:, None])
    torch.cuda.synchronize()
    batches, losses = iter(loader()), []
    for _ in range(len(dataset) // 4):
        losses.append(pipeline.progress(batches))
    return round(torch.stack(losses).mean().item(), 3)


class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    """What is saved for backward goes to pinned memory on a stream of its own, and comes back before it is used."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.leaving = collections.deque()
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        if isinstance(tensor, nn.Parameter) or not tensor.is_cuda or tensor.numel() < 8:
            return tensor
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor, non_blocking=True)
        self.leaving.append((tensor, self.stream.record_event()))
        while len(self.leaving) > 2:  # kept until it has left
            _, left = self.leaving.popleft()
            torch.cuda.current_stream().wait_event(left)
        return host

    def unpack(self, packed):
        if packed.is_cuda:
            return packed
        main = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            back = packed.to(device, non_blocking=True)
        main.wait_stream(self.stream)
        back.record_stream(main)
        return back


def activations_offloaded():
    model = make_model()
    optimizer, hooks = torch.optim.SGD(model.parameters(), lr=0.001), OffloadActivations()
    total = 0.0
    for inputs, target in loader():
        with hooks:
            loss = nn.functional.mse_loss(model(inputs.to(device, non_blocking=True)), target.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hooks.leaving.clear()
        torch.cuda.current_stream().wait_stream(hooks.stream)
        total += loss.item()
    return round(total, 3)


def layers_come_and_go():
    """Weights live in pinned memory; those of the next layer are fetched while this one runs."""
    fetching, main = torch.cuda.Stream(), torch.cuda.current_stream()
    weights = [torch.full((8, 8), 0.01 * (n + 1)).pin_memory() for n in range(5)]

    def fetch(number):
        with torch.cuda.stream(fetching):
            return weights[number].to(device, non_blocking=True), fetching.record_event()

    x, fetched = torch.ones(2, 8, device=device), fetch(0)
    for number in range(len(weights)):
        weight, ready = fetched
        main.wait_event(ready)
        weight.record_stream(main)
        if number + 1 < len(weights):
            fetched = fetch(number + 1)
        x = torch.tanh(x @ weight)
    return round(x.sum().item(), 4)


def optimizer_on_the_host():
    """Gradients go to pinned memory, the step is the host's, new weights come back."""
    model, copying = make_model(), torch.cuda.Stream()
    params = list(model.parameters())
    masters = [p.detach().cpu().pin_memory() for p in params]
    grads = [torch.zeros_like(master).pin_memory() for master in masters]
    for master, grad in zip(masters, grads):
        master.requires_grad_(True).grad = grad
    optimizer = torch.optim.Adam(masters, lr=0.01)
    total = 0.0
    for inputs, target in loader():
        loss = nn.functional.mse_loss(model(inputs.to(device)), target.to(device))
        loss.backward()
        copying.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copying), torch.no_grad():
            for p, grad in zip(params, grads):
                grad.copy_(p.grad, non_blocking=True)
        copying.synchronize()
        optimizer.step()
        with torch.cuda.stream(copying), torch.no_grad():
            for p, master in zip(params, masters):
                p.copy_(master, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copying)
        copying.synchronize()  # the host writes the masters again in the next step
        for p in params:
            p.grad = None
        total += loss.item()
    return round(total, 3)


def checkpoint_in_the_background():
    """A copy of the weights goes to pinned memory; a thread waits for it and writes it out."""
    model, written, threads = make_model(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    staging = {name: torch.empty_like(value, device="cpu", pin_memory=True) for name, value in model.state_dict().items()}
    for step, (inputs, target) in enumerate(loader()):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs.to(device)), target.to(device)).backward()
        optimizer.step()
        if step % 3:
            continue
        for thread in threads:
            thread.join()
        for name, value in model.state_dict().items():
            staging[name].copy_(value, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()

        def write(copied=copied):
            copied.synchronize()
            file = io.BytesIO()
            torch.save(staging, file)
            written.append(round(sum(value.sum().item() for value in staging.values()), 3))

        threads = [threading.Thread(target=write)]
        threads[0].start()
    for thread in threads:
        thread.join()
    return written


def average_on_the_side():
    """A moving average of the weights on a stream of its own, which the next step waits for."""
    model, averaging = make_model(), torch.cuda.Stream()
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for inputs, target in loader():
        loss = nn.functional.mse_loss(model(inputs.to(device)), target.to(device))
        optimizer.zero_grad()
        loss.backward()
        torch.cuda.current_stream().wait_stream(averaging)
        optimizer.step()
        averaging.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(averaging), torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 0.1)
    averaging.synchronize()
    return round(sum(each.sum().item() for each in average), 3)


def metrics_come_later():
    """Numbers of a step are read when the next one is under way."""
    buffers, events = [torch.zeros(1, pin_memory=True) for _ in range(2)], [torch.cuda.Event() for _ in range(2)]
    seen, value = [], torch.zeros(1, device=device)
    for step in range(6):
        value = value + step
        slot = step % 2
        if step >= 2:
            events[slot].synchronize()
            seen.append(buffers[slot].item())
        buffers[slot].copy_(value, non_blocking=True)
        events[slot].record()
    torch.cuda.synchronize()
    return seen + [buffers[0].item(), buffers[1].item()]


for function in (
    three_in_flight, activations_offloaded, layers_come_and_go, optimizer_on_the_host, checkpoint_in_the_background,
    average_on_the_side, metrics_come_later,
):  # fmt: skip
    print(function.__name__, function())
