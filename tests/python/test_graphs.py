"""CUDA graphs on simulated devices: values, what a card refuses, memory, generators."""

import json
from pathlib import Path

import pytest
import torch
from simulated import simulated

DATA = Path(__file__).parent.parent / "data" / "streams_h200_torch2.11.json"


def known():
    """What a card says of each case."""
    return {row["case"]: row for row in json.loads(DATA.read_text())["capture"]}


@simulated(devices=1)
def test_what_a_card_refuses_is_refused_in_its_words():
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    import capture_cases

    card, wrong = known(), []
    for name, call in capture_cases.cases().items():
        found = capture_cases.errors_of(call)
        assert not torch.cuda.is_current_stream_capturing(), name
        torch.cuda.synchronize()
        expected = card[name].get("errors", [])
        if hasattr(torch, "AcceleratorError") or not found:
            kinds = found
        else:  # before 2.9 these were RuntimeErrors
            kinds = [["AcceleratorError" if "CUDA error" in words else kind, words] for kind, words in found]
        if kinds != expected:
            wrong.append((name, expected, kinds))
    assert not wrong, "\n".join(map(str, wrong))


@simulated(devices=1)
def test_a_capture_does_not_run_and_a_replay_does():
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2
        x.add_(1)
    assert x.tolist() == [1.0] * 4 and y.tolist() == [0.0] * 4
    for step in range(1, 4):
        graph.replay()
        assert x.tolist() == [1.0 + step] * 4 and y.tolist() == [2.0 * step] * 4
    x.fill_(10.0)
    graph.replay()
    assert y.tolist() == [20.0] * 4


def train(graphed):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)
    batches = [torch.randn(8, 16, device="cuda") for _ in range(5)]
    static, losses = batches[0].clone(), []

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = model(static).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step()
    if graphed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
    for batch in batches:
        static.copy_(batch)
        if graphed:
            graph.replay()
        else:
            loss = step()
        losses.append(loss.item())
    return losses


@simulated(devices=1)
def test_a_training_step_gives_the_same_numbers():
    assert train(True) == train(False)


@simulated(devices=1)
def test_kernels_of_our_own_are_kept():
    """Attention, fused cells, half-precision softmax and products: what has no boxed kernel."""
    torch.manual_seed(0)
    query = torch.randn(2, 4, 8, 16, device="cuda", requires_grad=True)
    cell, state = torch.nn.LSTMCell(16, 16).cuda(), torch.randn(8, 16, device="cuda")
    half = torch.randn(8, 16, device="cuda", dtype=torch.half)

    def step():
        attended = torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
        (into,) = torch.autograd.grad(attended.square().sum(), query)
        weights = torch.softmax(half, -1, dtype=torch.float32)
        return attended, into, *cell(state), weights, half.log_softmax(0)

    graph = torch.cuda.CUDAGraph()
    step()
    with torch.cuda.graph(graph):
        kept = step()
    for _ in range(2):
        with torch.no_grad():
            query.normal_(), state.normal_(), half.normal_()
        graph.replay()
        for one, other in zip(kept, step()):
            assert one.dtype == other.dtype and torch.equal(one, other)


@simulated(devices=1)
def test_a_replay_takes_no_memory():
    x, weight = torch.randn(256, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    graph = torch.cuda.CUDAGraph()
    x @ weight
    with torch.cuda.graph(graph):
        y = torch.relu(x @ weight) @ weight
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    graph.replay()
    assert torch.cuda.max_memory_allocated() == before
    assert torch.equal(y, torch.relu(x @ weight) @ weight)


@simulated(devices=1)
def test_batch_norm_and_dropout():
    torch.manual_seed(0)
    norm, dropout = torch.nn.BatchNorm1d(4).cuda(), torch.nn.Dropout(0.5)
    x = torch.randn(8, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = dropout(norm(x))
    assert norm.num_batches_tracked.item() == 0 and norm.running_mean.abs().sum().item() == 0
    torch.manual_seed(1)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y), "other numbers are drawn in each replay"
    assert norm.num_batches_tracked.item() == 2
    torch.manual_seed(1)
    graph.replay()
    assert torch.equal((first == 0), (y == 0)), "from the generator as it is"


@simulated(devices=1)
def test_generators():
    generator = torch.Generator("cuda")
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        y = torch.rand(8, device="cuda", generator=generator)
    graph.replay()
    first = y.clone()
    graph.replay()
    assert not torch.equal(first, y)


@simulated(devices=1)
def test_make_graphed_callables():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
    model.load_state_dict(plain.state_dict())
    model = torch.cuda.make_graphed_callables(model, (torch.randn(4, 8, device="cuda"),))
    for _ in range(3):
        x = torch.randn(4, 8, device="cuda")
        for each in (plain, model):
            each.zero_grad(set_to_none=True)
            each(x).square().sum().backward()
        assert torch.equal(plain(x), model(x).detach())
        for one, other in zip(plain.parameters(), model.parameters()):
            assert torch.equal(one.grad, other.grad)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(4\) must match the size of tensor b \(3\)"):
        model(torch.randn(3, 8, device="cuda"))


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="from PyTorch 2.12 on")
@simulated(devices=1)
def test_the_accelerators_graph():
    x, stream = torch.zeros(4, device="cuda"), torch.Stream()
    graph = torch.accelerator.Graph()
    with stream, graph:
        x += 1
        y = x * 2
    assert x.tolist() == [0.0] * 4
    for _ in range(3):
        graph.replay()
    assert x.tolist() == [3.0] * 4 and y.tolist() == [6.0] * 4
    other = torch.accelerator.Graph(pool=graph.pool(), capture_error_mode="relaxed")
    with stream, other:
        x -= 1
    other.replay()
    assert other.pool() == graph.pool() and x.tolist() == [2.0] * 4
    graph.reset()
    with pytest.raises(RuntimeError, match="replay without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        torch.accelerator.Graph().capture_begin()


@simulated(devices=1)
def test_autocast_and_a_scaler_inside():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
    scaler, x = torch.amp.GradScaler("cuda"), torch.randn(4, 8, device="cuda")

    def step():
        with torch.autocast("cuda", cache_enabled=False):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        return loss

    step()
    graph = torch.cuda.CUDAGraph()
    model.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(2):
        x.normal_()
        graph.replay()
        graphed = [parameter.grad.clone() for parameter in model.parameters()]
        kept, value = [parameter.grad for parameter in model.parameters()], loss.clone()
        model.zero_grad(set_to_none=True)
        assert torch.equal(step(), value)
        for parameter, one, static in zip(model.parameters(), graphed, kept):
            assert torch.equal(parameter.grad, one)
            parameter.grad = static


@simulated(devices=1)
def test_wrong_orders_of_calls():
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with pytest.raises(RuntimeError, match="replay without a preceding successful capture"):
        graph.replay()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()
    with torch.cuda.stream(side), pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
        graph.capture_end()
    with torch.cuda.stream(side):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="Cannot register the state during capturing stage"):
            torch.cuda.CUDAGraph().capture_begin()
        graph.capture_end()
    with pytest.raises(ValueError, match="mine"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        raise ValueError("mine")
    assert not torch.cuda.is_current_stream_capturing()
    graph.reset()
    with pytest.raises(RuntimeError, match="replay without a preceding successful capture"):
        graph.replay()


@simulated(devices=1)
def test_pools():
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    x = torch.ones(16, device="cuda")
    with torch.cuda.graph(first):
        y = x + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = x + 2
    first.replay()
    second.replay()
    assert (y[0].item(), z[0].item()) == (2.0, 3.0) and y.data_ptr() != z.data_ptr()
    assert first.pool() == second.pool() != torch.cuda.graph_pool_handle() != torch.cuda.graph_pool_handle()
    before = torch.cuda.memory_allocated()
    third = torch.cuda.CUDAGraph()
    with torch.cuda.graph(third):
        w = torch.zeros(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 << 20
    del w
    assert torch.cuda.memory_allocated() == before, "a graph keeps no tensor"
    third.replay()


@simulated(devices=1)
def test_a_number_of_the_hosts_is_captured():
    x, scale = torch.ones(4, device="cuda"), torch.tensor(3.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * scale
    scale.fill_(5.0)
    graph.replay()
    assert y.tolist() == [3.0] * 4
