"""Libraries that a capture is the first to need: a card sets them up for each thread, and can't do that in a capture."""

import threading

import torch
from torch import nn

device = torch.device("cuda:0")


def served():
    """A server that captures its model before it has ever called it."""
    scorer, requests = nn.Linear(8, 1, bias=False).to(device), torch.ones(4, 8, device=device)
    nn.init.constant_(scorer.weight, 0.25)
    # ADD 1: scorer(requests)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        scores = scorer(requests)  # BUG 1: not-capturable
    graph.replay()
    return scores.sum().item()


def whole_step():
    """The warm-up calls the model only; the products of the backward pass are another thread's."""
    weight, data = torch.full((8, 2), 0.25, device=device, requires_grad=True), torch.ones(4, 8, device=device)

    def loss_of(batch):
        return torch.mm(batch, weight).square().sum()  # BUG 2: not-capturable

    weight.grad, stream = torch.zeros(8, 2, device=device), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            loss = loss_of(data)
            # ADD 2: loss.backward()
    torch.cuda.current_stream().wait_stream(stream)
    weight.grad.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = loss_of(data)
        loss.backward()
    graph.replay()
    return weight.grad.sum().item()


def spectrum():
    wave, graph = torch.ones(16, device=device), torch.cuda.CUDAGraph()
    # ADD 3: torch.fft.rfft(wave)
    with torch.cuda.graph(graph):
        power = torch.fft.rfft(wave).abs()  # BUG 3: not-capturable
    graph.replay()
    return power.sum().item()


def orthogonal():
    basis, graph = torch.eye(4, device=device) * 2, torch.cuda.CUDAGraph()
    # ADD 4: torch.linalg.qr(basis)
    with torch.cuda.graph(graph):
        q, r = torch.linalg.qr(basis)  # BUG 4: not-capturable
    graph.replay()
    return r.abs().sum().item()


def second_worker():
    """Each worker captures for itself; only the first one has warmed up, and still lives."""
    x, results, warm, done = torch.ones(4, 4, device=device), [], threading.Event(), threading.Event()

    def first():
        x @ x
        warm.set()
        done.wait()

    def second():
        warm.wait()
        # ADD 5: x @ x
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=stream):
            squared = x @ x  # BUG 5: not-capturable
        graph.replay()
        results.append(squared.sum().item())

    workers = [threading.Thread(target=worker) for worker in (first, second)]
    for worker in workers:
        worker.start()
    workers[1].join()
    done.set()
    workers[0].join()
    return results[0]


print("served", served())
print("whole step", whole_step())
print("spectrum", spectrum())
print("orthogonal", orthogonal())
print("second worker", second_worker())
