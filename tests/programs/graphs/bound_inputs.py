"""New data that is bound to the name of a graph's input, where it should be copied into it; and a result that is given a
second name, to be compared with the next one."""

import torch
from torch import nn

device = torch.device("cuda")
batches = [torch.full((3, 4), float(step)) for step in range(1, 5)]


def captured(function, *statics):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*statics)
    return graph, result


def kept_by_a_second_name():
    example = batches[0].to(device)
    x = example
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = x.sum()
    sums = []
    for batch in batches:
        x = batch.to(device)  # BUG 1: graph-input-gone
        # FIX: x.copy_(batch.to(device))
        graph.replay()
        sums.append(result.item())
    return sums, example.shape


def training_step():
    torch.manual_seed(0)
    model = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.zeros(3, 4, device=device), torch.zeros(3, 1, device=device)
    model(inputs).sum().backward()
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    for batch in batches:
        inputs = batch.cuda()  # BUG 2: graph-input-gone
        # FIX: inputs.copy_(batch.cuda())
        targets = inputs.mean(1, keepdim=True)  # BUG 3: graph-input-gone
        # FIX: targets.copy_(inputs.mean(1, keepdim=True))
        graph.replay()
    return round(loss.item(), 3)


class Session:
    """Serves requests by a graph; keeps its buffers in a dict as well."""

    def __init__(self, model):
        self.request = torch.zeros(3, 4, device=device)
        self.buffers = {"request": self.request}
        self.graph, self.answer = captured(lambda: model(self.request))

    def serve(self, request):
        self.request = request.to(device)  # BUG 4: graph-input-gone
        # FIX: self.request.copy_(request.to(device))
        self.graph.replay()
        return self.answer.sum().item()


def server():
    session = Session(lambda x: x * x)
    return [session.serve(batch) for batch in batches]


def compared_with_the_one_before():
    static = torch.zeros(4, device=device)
    graph, state = captured(lambda x: x.cumsum(0), static)
    before, changes = None, []
    for batch in batches:
        static.copy_(batch[0])
        graph.replay()
        if before is not None:
            changes.append((state - before).sum().item())
        before = state  # BUG 5: graph-output-kept
        # FIX: before = state.clone()
    return changes


def first_against_last():
    static = torch.zeros(4, device=device)
    graph, score = captured(lambda x: x.square().sum(), static)
    static.fill_(1.0)
    graph.replay()
    first = score  # BUG 6: graph-output-kept
    # FIX: first = score.clone()
    static.fill_(2.0)
    graph.replay()
    return torch.sub(score, first).item()


print("kept by a second name", kept_by_a_second_name())
print("training step", training_step())
print("server", server())
print("compared with the one before", compared_with_the_one_before())
print("first against last", first_against_last())
