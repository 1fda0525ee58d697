"""Results of a CUDA graph that are kept as they are, and taken together after later replays have overwritten them."""

import torch
from torch import nn

device = torch.device("cuda")
batches = [torch.full((4,), float(step), device=device) for step in range(1, 5)]


def captured(function):
    static = torch.zeros(4, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(static)
    return graph, static, result


def stacked():
    graph, static, result = captured(lambda x: x * 2)
    kept = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        kept.append(result)  # BUG 1: graph-output-kept
        # FIX: kept.append(result.clone())
    return torch.stack(kept).sum(1).tolist()


def read_one_by_one():
    graph, static, loss = captured(lambda x: x.square().mean())
    losses = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        losses.append(loss.detach())  # BUG 2: graph-output-kept
        # FIX: losses.append(loss.detach().clone())
    return [value.item() for value in losses]


def added_up():
    graph, static, score = captured(lambda x: x.sum())
    scores = {}
    for step, batch in enumerate(batches):
        static.copy_(batch)
        graph.replay()
        scores[step] = score  # BUG 3: graph-output-kept
        # FIX: scores[step] = score.clone()
    total = 0.0
    for step, value in scores.items():
        total += step * value.item()
    return total


class Runner:
    def __init__(self):
        self.graph, self.static, self.result = captured(lambda x: x + 1)
        self.history = []

    def step(self, batch):
        self.static.copy_(batch)
        self.graph.replay()
        self.history.append(self.result)  # BUG 4: graph-output-kept
        # FIX: self.history.append(self.result.clone())

    def average(self):
        return (sum(self.history) / len(self.history)).tolist()


def kept_by_an_object():
    runner = Runner()
    for batch in batches:
        runner.step(batch)
    return runner.average()


def graphed_layer():
    torch.manual_seed(0)
    layer = nn.Linear(4, 2).to(device).requires_grad_(False)
    return torch.cuda.make_graphed_callables(layer, (torch.zeros(1, 4, device=device),))


def results_of_a_callable():
    layer = graphed_layer()
    outputs = [layer(batch[None]) for batch in batches]  # BUG 5: graph-output-kept
    # FIX: outputs = [layer(batch[None]).clone() for batch in batches]
    return [round(number, 3) for number in torch.cat(outputs).flatten().tolist()]


def two_calls():
    layer = graphed_layer()
    first = layer(batches[0][None])  # BUG 6: graph-output-kept
    # FIX: first = layer(batches[0][None]).clone()
    second = layer(batches[3][None])
    return round((first - second).abs().sum().item(), 3)


def two_of_a_dict():
    layer = graphed_layer()
    features = {name: layer(batch[None]) for name, batch in zip("abcd", batches)}  # BUG 7: graph-output-kept
    # FIX: features = {name: layer(batch[None]).clone() for name, batch in zip("abcd", batches)}
    return round((features["a"] - features["d"]).abs().sum().item(), 3)


print("stacked", stacked())
print("read one by one", read_one_by_one())
print("added up", added_up())
print("kept by an object", kept_by_an_object())
print("results of a callable", results_of_a_callable())
print("two calls", two_calls())
print("two of a dict", two_of_a_dict())
