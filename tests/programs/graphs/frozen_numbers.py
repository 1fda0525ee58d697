"""Numbers of the host's that are part of a graph, and that the program changes before it replays."""

import torch
from torch import nn

device = torch.device("cuda")
ones = torch.ones(8, device=device)


class Sampler:
    def __init__(self, temperature):
        self.temperature = temperature

    def scores(self, logits):
        return logits / self.temperature


def learning_rate():
    weight = torch.ones(4, device=device, requires_grad=True)
    weight.grad = torch.ones(4, device=device)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    # ADD 1: graph.replay()
    optimizer.param_groups[0]["lr"] = 0.25
    graph.replay()  # BUG 1: frozen-in-graph
    # FIX: optimizer.step()
    return weight.sum().item()


def attribute():
    sampler, graph = Sampler(0.5), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = sampler.scores(ones)
    graph.replay()
    sampler.temperature = 0.25
    # ADD 2: graph = torch.cuda.CUDAGraph()
    # ADD 2: with torch.cuda.graph(graph): scores = sampler.scores(ones)
    graph.replay()  # BUG 2: frozen-in-graph
    return scores.sum().item()


def dropout():
    layer, graph = nn.Dropout(0.5), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dropped = layer(ones)
    graph.replay()
    layer.p = 0.0
    # ADD 3: graph = torch.cuda.CUDAGraph()
    # ADD 3: with torch.cuda.graph(graph): dropped = layer(ones)
    graph.replay()  # BUG 3: frozen-in-graph
    return (dropped == 1).all().item()


def weight_of_a_loss():
    balance, graph = torch.full((), 1.0, device=device), torch.cuda.CUDAGraph()
    share = 0.5
    # FIX 4: share = torch.full((), 0.5, device=device)
    with torch.cuda.graph(graph):
        loss = balance * share
    losses = []
    for _ in range(2):
        graph.replay()  # BUG 4: frozen-in-graph
        losses.append(loss.item())
        share *= 0.5
    return losses


def correction_of_a_bias():
    moment, graph = torch.ones(4, device=device), torch.cuda.CUDAGraph()
    steps = 1
    # FIX 5: steps = torch.ones((), device=device)
    with torch.cuda.graph(graph):
        corrected = moment / (1 - 0.5**steps)
    sums = []
    for _ in range(2):
        graph.replay()  # BUG 5: frozen-in-graph
        sums.append(round(corrected.sum().item(), 3))
        steps += 1
    return sums


class Clock:
    def __init__(self):
        self.ticks = 1
        # FIX 6: self.ticks = torch.ones((), device=device)


def count_of_steps():
    clock, graph = Clock(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        warmed = ones * clock.ticks
    sums = []
    for _ in range(3):
        graph.replay()  # BUG 6: frozen-in-graph
        sums.append(warmed.sum().item())
        clock.ticks += 1
    return sums


print("learning rate", learning_rate())
print("attribute", attribute())
print("dropout", dropout())
print("weight of a loss", weight_of_a_loss())
print("correction of a bias", correction_of_a_bias())
print("count of steps", count_of_steps())
