"""Calls to make while a CUDA graph is captured; what a card did is in tests/data/streams_h200_torch2.11.json."""

import torch


def cases():
    """Each by its name."""
    x, pinned, host = torch.ones(16, device="cuda"), torch.ones(16).pin_memory(), torch.ones(16)
    mask, longs = x > 0, torch.ones(16, dtype=torch.long, device="cuda")
    event, side = torch.cuda.Event(), torch.cuda.Stream()
    layer, dropout, generator = torch.nn.Linear(16, 16).cuda(), torch.nn.Dropout(0.5), torch.Generator("cuda")
    layer(x).sum().backward()
    adam = torch.optim.Adam(layer.parameters(), foreach=True)
    capturable, sgd = torch.optim.Adam(layer.parameters(), capturable=True), torch.optim.SGD(layer.parameters(), 0.1)
    for optimizer in (adam, capturable):
        optimizer.step()
    current, functional = torch.cuda.current_stream, torch.nn.functional

    def decide():
        if x.sum() > 0:
            pass

    def assign():
        x[mask] = 2.0

    def event_synchronize():
        event.record()
        event.synchronize()

    def event_query():
        event.record()
        event.query()

    def on_side(waits, joins):
        if waits:
            side.wait_stream(current())
        with torch.cuda.stream(side):
            x.add_(1)
        if joins:
            current().wait_stream(side)

    def clip(**options):
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0, **options)

    return {
        "item": lambda: x.sum().item(),
        "tolist": lambda: x.tolist(),
        "cpu": lambda: x.cpu(),
        "print_tensor": lambda: str(x),
        "if_tensor": decide,
        "float_of": lambda: float(x.sum()),
        "pageable_to_card": lambda: torch.ones(16).cuda(),
        "pageable_copy": lambda: x.copy_(host),
        "pageable_copy_nonblocking": lambda: x.copy_(host, non_blocking=True),
        "pinned_blocking": lambda: x.copy_(pinned),
        "pinned_nonblocking": lambda: x.copy_(pinned, non_blocking=True),
        "to_pinned_nonblocking": lambda: pinned.copy_(x, non_blocking=True),
        "to_pinned_blocking": lambda: pinned.copy_(x),
        "to_host_nonblocking": lambda: host.copy_(x, non_blocking=True),
        "cpu_nonblocking": lambda: x.to("cpu", non_blocking=True),
        "tensor_scalar": lambda: torch.tensor(3.0, device="cuda"),
        "tensor_list": lambda: torch.tensor([1.0, 2.0], device="cuda"),
        "full_scalar": lambda: torch.full((2,), 3.0, device="cuda"),
        "mask_index": lambda: x[mask],
        "mask_assign": assign,
        "masked_fill": lambda: x.masked_fill_(mask, 2.0),
        "nonzero": lambda: x.nonzero(),
        "where1": lambda: torch.where(mask),
        "unique": lambda: x.unique(),
        "masked_select": lambda: torch.masked_select(x, mask),
        "repeat_interleave": lambda: x.repeat_interleave(longs),
        "bincount": lambda: torch.ones(4, dtype=torch.long, device="cuda").bincount(),
        "isin_any": lambda: bool(torch.isnan(x).any()),
        "synchronize": lambda: torch.cuda.synchronize(),
        "stream_synchronize": lambda: current().synchronize(),
        "stream_query": lambda: current().query(),
        "event_synchronize": event_synchronize,
        "event_query": event_query,
        "unjoined_side": lambda: on_side(True, False),
        "joined_side": lambda: on_side(True, True),
        "side_without_wait": lambda: on_side(False, False),
        "wait_outside_event": lambda: current().wait_stream(side),
        "legacy_default_wait": lambda: current().wait_stream(torch.cuda.default_stream()),
        "unregistered_generator": lambda: torch.rand(4, device="cuda", generator=generator),
        "default_generator": lambda: torch.rand(4, device="cuda"),
        "dropout": lambda: dropout(x),
        "cpu_op": lambda: host.add_(1),
        "linear": lambda: layer(x),
        "backward": lambda: layer(x).sum().backward(),
        "adam_step": lambda: adam.step(),
        "adam_capturable_step": lambda: capturable.step(),
        "sgd_step": lambda: sgd.step(),
        "clip_grad": clip,
        "clip_grad_error": lambda: clip(error_if_nonfinite=True),
        "multinomial": lambda: torch.multinomial(x, 2),
        "randperm": lambda: torch.randperm(8, device="cuda"),
        "topk": lambda: torch.topk(x, 3),
        "sort": lambda: torch.sort(x),
        "embedding": lambda: functional.embedding(longs[:3], layer.weight),
        "cross_entropy": lambda: functional.cross_entropy(layer(x).view(1, 16), longs[:1]),
        "arange": lambda: torch.arange(5, device="cuda"),
        "zeros": lambda: torch.zeros(5, device="cuda"),
        "pin_memory": lambda: torch.ones(4).pin_memory(),
    }


def errors_of(call):
    """The first lines of the errors of a capture with this call, the last raised first; [] where there is none."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
        graph.replay()
    except Exception as error:
        found, each = [], error
        while each is not None:
            found.append([type(each).__name__, str(each).partition("\n")[0]])
            each = each.__context__
        return found
    return []
