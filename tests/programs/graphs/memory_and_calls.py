"""Graphs that work on memory which their tensors no longer have, and calls that can't be captured."""

import torch
from torch import nn

device = torch.device("cuda")
side = torch.cuda.Stream()


def input_bound_anew():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    static = torch.full((8,), 3.0, device=device)  # BUG 1: graph-input-gone
    # FIX: static.copy_(torch.full((8,), 3.0, device=device))
    graph.replay()
    return result.sum().item()


def resized():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    static.resize_(4096)
    # FIX 2:
    graph.replay()  # BUG 2: graph-input-gone
    return result.sum().item()


def given_other_memory():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    static.data = torch.full((8,), 3.0, device=device)
    # FIX 3: static.data.copy_(torch.full((8,), 3.0, device=device))
    graph.replay()  # BUG 3: graph-input-gone
    return result.sum().item()


def model_moved():
    torch.manual_seed(0)
    model, inputs = nn.Linear(8, 1).to(device).requires_grad_(False), torch.ones(2, 8, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(inputs)
    model.cpu()
    # FIX 4:
    model.to(device)
    # FIX 4:
    graph.replay()  # BUG 4: graph-input-gone
    return round(result.sum().item(), 3)


def gradients_cleared():
    weight, graph = torch.ones(8, device=device, requires_grad=True), torch.cuda.CUDAGraph()
    weight.grad = torch.zeros(8, device=device)
    with torch.cuda.graph(graph):
        weight.grad.copy_(weight.detach() * 3)
    weight.grad = None
    # FIX 5: weight.grad.zero_()
    graph.replay()  # BUG 5: graph-input-gone
    return weight.grad is not None and weight.grad.sum().item()


def generator_not_registered():
    generator, graph = torch.Generator("cuda").manual_seed(0), torch.cuda.CUDAGraph()
    # ADD 6: graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        drawn = torch.rand(8, device=device, generator=generator)  # BUG 6: not-capturable
    graph.replay()
    return drawn.shape[0]


def waits_for_a_number():
    x, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = x.sum()
        print("so far", total.item() * 0)  # BUG 7: not-capturable
        # FIX: print("so far", 0.0)
    graph.replay()
    return total.item()


def copies_from_pageable_memory():
    static, host, graph = torch.zeros(8, device=device), torch.ones(8), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static.copy_(host)  # BUG 8: not-capturable
        # FIX: static.copy_(pinned, non_blocking=True)
        result = static * 2
    graph.replay()
    return result.sum().item()


def side_stream_not_joined():
    x, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # BUG 9: not-capturable
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            doubled = x * 2
        # ADD 9: torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    return doubled.sum().item()


def input_overwritten_during_a_replay():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    side.wait_stream(torch.cuda.current_stream())
    graph.replay()
    # ADD 10: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # BUG 10: overwritten-too-early
        static.fill_(9.0)  # ALSO: 10
    torch.cuda.synchronize()
    return result.sum().item()


def result_read_on_another_stream():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    side.wait_stream(torch.cuda.current_stream())
    graph.replay()
    # ADD 11: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # BUG 11: read-too-early
        total = result.sum()  # ALSO: 11
    torch.cuda.synchronize()
    return total.item()


def captured_with_an_input_of_its_own():
    static, graph = torch.ones(8, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static * 2
    return graph, result
    # FIX 12: return graph, result, static


def input_gone_with_its_function():
    graph, result = captured_with_an_input_of_its_own()
    # FIX 12: graph, result, _static = captured_with_an_input_of_its_own()
    other = torch.full((8,), 7.0, device=device)
    graph.replay()  # BUG 12: graph-input-gone
    return result.sum().item(), other.sum().item()


pinned = torch.ones(8, pin_memory=True)
torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)  # a card can't set cuBLAS up in a capture
print("input bound anew", input_bound_anew())
print("resized", resized())
print("given other memory", given_other_memory())
print("model moved", model_moved())
print("gradients cleared", gradients_cleared())
print("generator not registered", generator_not_registered())
print("waits for a number", waits_for_a_number())
print("copies from pageable memory", copies_from_pageable_memory())
print("side stream not joined", side_stream_not_joined())
print("input overwritten during a replay", input_overwritten_during_a_replay())
print("result read on another stream", result_read_on_another_stream())
print("input gone with its function", input_gone_with_its_function())
