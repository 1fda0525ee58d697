"""Programs with CUDA graphs that have nothing wrong, though they look like some that do."""

import torch
from torch import nn

device = torch.device("cuda")
torch.manual_seed(0)
batches = [torch.full((4,), float(step), device=device) for step in range(1, 6)]


def captured(function, size=4):
    static, graph = torch.ones(size, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(static)
    return graph, static, result


def read_after_each_replay():
    graph, static, result = captured(lambda x: x * 2)
    seen = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        seen.append(result.sum().item())
    return seen


def the_newest_under_another_name():
    graph, static, static_loss = captured(lambda x: x.mean())
    graph.replay()
    loss = static_loss
    logged = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        logged.append((loss * static_loss).item())
    return logged


def copies_are_kept():
    graph, static, result = captured(lambda x: x * 2)
    kept, table = [], torch.empty(len(batches), 4, device=device)
    previous, moved = None, 0.0
    for row, batch in enumerate(batches):
        static.copy_(batch)
        graph.replay()
        kept.append(result.clone())
        table[row].copy_(result)
        moved += 0.0 if previous is None else (result - previous).abs().sum().item()
        previous = result.clone()
    return torch.stack(kept).sum().item(), table.sum().item(), moved


def only_the_last_is_read():
    graph, static, result = captured(lambda x: x * 2)
    history = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        history.append(result)
        print(history[-1].sum().item(), len(history))
    return history[-1].sum().item()


def one_result_several_times():
    """A list that is made anew after each replay: guidance with and without a condition, queries that are keys."""
    graph, static, result = captured(lambda x: x.view(2, 2) * 2)
    total = 0.0
    for step, batch in enumerate(batches):
        static.copy_(batch)
        graph.replay()
        both = [result] * 2
        several = []
        for _ in range(step + 1):
            several.append(result)
        total += torch.cat(both).sum().item() + torch.stack(several).sum().item()
        query = key = value = result[None, None]
        total += nn.functional.scaled_dot_product_attention(query, key, value).sum().item()
    return round(total, 3)


def the_same_input_each_time():
    """Nothing changes, so nothing is lost."""
    graph, static, result = captured(lambda x: x.sqrt())
    results = []
    for _ in range(4):
        graph.replay()
        results.append(result)
    return all(torch.equal(one, results[0]) for one in results), torch.stack(results).sum().item()


def a_callable_read_before_the_next_call():
    layer = nn.Linear(4, 2).to(device)
    layer = torch.cuda.make_graphed_callables(layer, (torch.zeros(1, 4, device=device),))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = layer(batch[None]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return round(torch.stack(losses).sum().item(), 3)


def a_handle_of_a_callables_result():
    layer = nn.Linear(4, 4).to(device).requires_grad_(False)
    layer = torch.cuda.make_graphed_callables(layer, (torch.zeros(1, 4, device=device),))
    total = 0.0
    for batch in batches:
        result = layer(batch[None])
        flat = result.view(-1)
        total += (result.view(-1) * flat).sum().item()
    return round(total, 3)


class Sampler:
    def __init__(self):
        self.temperature = 1.0

    def __call__(self, x):
        return x / self.temperature


def a_graph_for_each_value():
    sampler, graphs = Sampler(), {}
    for temperature in (0.5, 1.0, 2.0):
        sampler.temperature = temperature
        graphs[temperature] = captured(sampler)
    total = 0.0
    for temperature in (1.0, 0.5, 2.0, 0.5):
        graph, static, result = graphs[temperature]
        graph.replay()
        total += result.sum().item()
    return total


def a_number_changes_back():
    sampler = Sampler()
    graph, static, result = captured(sampler)
    sampler.temperature = 2.0
    eager = sampler(static).sum().item()
    sampler.temperature = 1.0
    graph.replay()
    return eager + result.sum().item()


def numbers_of_loops():
    """Names that are used again for something else."""
    graph, static = torch.cuda.CUDAGraph(), torch.ones(4, device=device)
    with torch.cuda.graph(graph):
        x = static
        scale = 1.0
        for i in range(3):
            x = x * scale + 0.5**i
            scale = scale * 0.5
    scale = 7.0
    total = scale
    for i in range(4):
        graph.replay()
        total += x.sum().item()
    return total


def a_rate_on_the_device():
    weight = torch.ones(4, device=device, requires_grad=True)
    weight.grad = torch.ones(4, device=device)
    rate = torch.full((), 0.5, device=device)
    optimizer = torch.optim.Adam([weight], lr=rate, capturable=True)
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for _ in range(3):
        rate.mul_(0.5)
        graph.replay()
    return round(weight.sum().item(), 3)


def training_and_evaluation():
    """A graph for each mode; the module's flag has no part in a replay."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(device).requires_grad_(False)
    model.train()
    train_graph, train_input, train_result = captured(lambda x: model(x[None]))
    model.eval()
    eval_graph, eval_input, eval_result = captured(lambda x: model(x[None]))
    total = 0.0
    for batch in batches:
        train_input.copy_(batch)
        train_graph.replay()
        eval_input.copy_(batch)
        eval_graph.replay()
        total += eval_result.sum().item()
    return train_result.shape[0], round(total, 3)


def a_cache_that_grows():
    """Keys and values go to a place of their own in a static cache, by an index on the device."""
    cache, position = torch.zeros(8, 4, device=device), torch.zeros(1, dtype=torch.long, device=device)
    static, graph = torch.zeros(4, device=device), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.index_copy_(0, position, static[None] * 2)
        position += 1
        total = cache.sum()
    sums = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        sums.append(total.item())
    return sums


def rows_of_one_result():
    """Each replay fills another row of what the graph has made; the rows before stay."""
    position, graph = torch.zeros(1, dtype=torch.long, device=device), torch.cuda.CUDAGraph()
    static = torch.zeros(4, device=device)
    with torch.cuda.graph(graph):
        table = torch.empty(8, 4, device=device)
        table.index_copy_(0, position, static[None] * 2)
        position += 1
    rows = []
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        rows.append(table[len(rows)])
    return torch.stack(rows).sum().item()


def padded_batches():
    """Graphs for sizes; smaller batches use a part."""
    graphs = {size: captured(lambda x: x * 3, size) for size in (2, 4, 8)}
    parts = []
    for count in (1, 2, 3, 5, 8):
        graph, static, result = graphs[min(size for size in graphs if size >= count)]
        static[:count].fill_(float(count))
        graph.replay()
        parts.append(result[:count].clone())
    return torch.cat(parts).sum().item()


def a_name_that_goes_on():
    """The input's name is used for something else, which is read; the graph works on what it was captured with."""
    x = torch.ones(4, device=device)
    first = x
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = x * 2
    total = 0.0
    for batch in batches:
        x = batch + 1
        graph.replay()
        total += (result - x).sum().item() + first[0].item()
    return total


def copied_from_the_same_name():
    x = torch.ones(4, device=device)
    static = x
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = x * 2
    total = 0.0
    for batch in batches:
        x = batch.clone()
        static.copy_(x)
        graph.replay()
        total += result.sum().item()
    return total


def two_names_without_a_replay():
    graph, static, result = captured(lambda x: x + 1)
    total = 0.0
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        same = result
        total += (result - same).sum().item()
    return total


class Halves:
    """Feeds its buffer by a method of its own, and looks at what it was given last."""

    def __init__(self):
        self.last = torch.zeros(4, device=device)
        self.buffer = self.last
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.half = self.buffer / 2

    def __call__(self, batch):
        self.last = batch
        self.feed()
        self.graph.replay()
        return self.half.sum().item()

    def feed(self):
        self.buffer.copy_(self.last)


def fed_by_a_method():
    halves = Halves()
    return sum(halves(batch) for batch in batches)


def training_by_a_callable():
    """One call and its backward() after the other; a second model beside it; an evaluation with gradients on."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device) for _ in range(2)]
    one, other = torch.cuda.make_graphed_callables(tuple(models), tuple((batches[0][None],) for _ in models))
    optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
    for batch in batches:
        loss = one(batch[None]).mean() - other(batch[None] + 1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return [one(batch[None]).detach().isfinite().all().item() for batch in batches]


def positions_made_in_the_capture():
    graph, static, result = captured(lambda x: x * torch.arange(4, device=device) + torch.linspace(0, 1, 4, device=device))
    total = 0.0
    for batch in batches:
        static.copy_(batch)
        graph.replay()
        total += result.sum().item()
    return total


def attention_in_a_capture():
    q, k, v = (torch.ones(1, 2, 4, 8, device=device) for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    total = 0.0
    for number in range(3):
        v.copy_(torch.full((1, 2, 4, 8), float(number)))
        graph.replay()
        total += result.sum().item()
    return total


def captured_again():
    """One graph, captured anew for each length; the first input lives on."""
    graph, inputs, total = torch.cuda.CUDAGraph(), [], 0.0
    for length in (1, 2):
        x = torch.full((4,), float(length), device=device)
        inputs.append(x)
        graph.reset()
        with torch.cuda.graph(graph):
            result = x * 2
        graph.replay()
        total += result.sum().item()
    return total, len(inputs)


for function in (
    captured_again, attention_in_a_capture, positions_made_in_the_capture, training_by_a_callable, a_name_that_goes_on, copied_from_the_same_name, two_names_without_a_replay, fed_by_a_method, read_after_each_replay, the_newest_under_another_name, copies_are_kept, only_the_last_is_read,
    one_result_several_times, the_same_input_each_time, a_callable_read_before_the_next_call,
    a_handle_of_a_callables_result, a_graph_for_each_value, a_number_changes_back, numbers_of_loops,
    a_rate_on_the_device, training_and_evaluation, a_cache_that_grows, rows_of_one_result,
    padded_batches,
):  # fmt: skip
    print(function.__name__, function())
