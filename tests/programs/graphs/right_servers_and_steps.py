"""Graphs that share a pool, a graph for each size, and trainings whose step is a graph in part: nothing is wrong here."""

import collections
from dataclasses import dataclass

import torch
from torch import nn

device = torch.device("cuda")


def a_graph_for_each_size():
    """As a server of language models does: one pool, slices of one buffer."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8).to(device).requires_grad_(False)
    static, result = torch.zeros(8, 8, device=device), torch.zeros(8, 8, device=device)
    pool, graphs = None, {}
    model(static)  # a card can't set cuBLAS up in a capture
    for size in (8, 4, 2, 1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            result[:size].copy_(model(static[:size]))
        pool = pool or graph.pool()
        graphs[size] = graph

    def run(x):
        size = next(each for each in (1, 2, 4, 8) if each >= len(x))
        static[: len(x)].copy_(x)
        static[len(x) : size].zero_()
        graphs[size].replay()
        return result[: len(x)].clone()

    return [round(run(torch.full((rows, 8), float(rows))).mean().item(), 3) for rows in (1, 3, 5, 8, 2)]


def a_tree_of_graphs():
    """Each reads what the one before it has made."""
    x, pool = torch.ones(32, device=device), torch.cuda.graph_pool_handle()
    trunk, more, less = (torch.cuda.CUDAGraph() for _ in range(3))
    with torch.cuda.graph(trunk, pool=pool):
        doubled = x * 2
    with torch.cuda.graph(more, pool=pool):
        sum_ = doubled + 1
    with torch.cuda.graph(less, pool=pool):
        difference = doubled - 1

    def run(value):
        x.fill_(value)
        trunk.replay()
        (more if value % 2 else less).replay()
        return (sum_ if value % 2 else difference).clone()

    return [run(value)[0].item() for value in range(6)]


def scaler_around_a_graph():
    """Forward and backward are a graph; the step, which looks at a value, is not."""
    torch.manual_seed(0)
    model, scaler = nn.Linear(8, 4).to(device), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.zeros(16, 8, device=device), torch.zeros(16, 4, device=device)

    def losses():
        with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        return loss

    warming = torch.cuda.Stream()
    warming.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warming):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            losses()
            scaler.step(optimizer)
            scaler.update()
    torch.cuda.current_stream().wait_stream(warming)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = losses()
    for step in range(3):
        x.copy_(torch.full((16, 8), float(step)))
        graph.replay()
        scaler.step(optimizer)
        scaler.update()
    return round(loss.item(), 3)


def learning_rate_as_a_tensor():
    """What a schedule changes is read by the replay."""
    torch.manual_seed(0)
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1, device=device), capturable=True)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    x = torch.ones(4, 8, device=device)
    warming = torch.cuda.Stream()
    warming.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warming):
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(warming)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    for step in range(6):
        x.copy_(torch.full((4, 8), 1.0 + step))
        graph.replay()
        schedule.step()
    return round(optimizer.param_groups[0]["lr"].item(), 4)


@dataclass
class Step:
    number: int
    scores: torch.Tensor


def copies_in_a_window():
    """What is kept over the next replay is a copy, and the newest result may be kept as it is."""
    x, graph = torch.zeros(4, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = x * 2
    window, steps, newest = collections.deque(maxlen=3), [], collections.deque(maxlen=1)
    for number in range(6):
        x.fill_(float(number))
        graph.replay()
        window.append(scores.clone())
        steps.append(Step(number, scores.clone()))
        newest.append(scores)
    assert torch.stack(tuple(newest)).mean() == 10
    return torch.stack(tuple(window)).mean().item(), sum(step.scores[0].item() for step in steps)


class Decoder:
    """Counts its steps on the device, for the graph, and on the host, for itself."""

    def __init__(self):
        self.cache, self.token = torch.zeros(8, 4, device=device), torch.zeros(4, device=device)
        self.position, self.steps = torch.zeros(1, dtype=torch.long, device=device), 0
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.cache.index_copy_(0, self.position, self.token[None])
            self.position.add_(1)

    def step(self, value):
        self.token.fill_(value)
        self.graph.replay()
        self.steps += 1
        return self.cache[self.steps - 1].sum().item()


def counted_on_both_sides():
    decoder = Decoder()
    return [decoder.step(value) for value in range(1, 5)]


def a_graph_for_each_slot():
    """A slot is counted on while the graphs are made, and while they are used."""
    slots, x, graphs, slot = torch.zeros(3, 4, device=device), torch.zeros(4, device=device), [], 0
    while slot < 3:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            slots[slot].copy_(x)
        graphs.append(graph)
        slot += 1
    for number, graph in enumerate(graphs):
        x.fill_(float(number + 1))
        graph.replay()
        slot += 1
    return slots.sum(1).tolist(), slot


class Rows:
    """Captured for as many rows as there may be; how many there are is the host's business."""

    def __init__(self):
        self.rows = torch.zeros(4, 8, device=device)
        self.count = 4
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.doubled = self.rows.mul(2).div(self.count)
        self.count = 0

    def add(self, value):
        self.rows[self.count].fill_(value)
        self.count += 1
        self.graph.replay()
        return self.doubled[: self.count].sum().item()


def captured_for_the_most():
    rows = Rows()
    return [rows.add(value) for value in range(1, 5)]


print("a graph for each size", a_graph_for_each_size())
print("a tree of graphs", a_tree_of_graphs())
print("scaler around a graph", scaler_around_a_graph())
print("learning rate as a tensor", learning_rate_as_a_tensor())
print("copies in a window", copies_in_a_window())
print("counted on both sides", counted_on_both_sides())
print("a graph for each slot", a_graph_for_each_slot())
print("captured for the most", captured_for_the_most())
