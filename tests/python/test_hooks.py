"""The hooks note what they should, and a program can't tell that they are there."""

import inspect
import io
import pickle

from simulated import simulated


@simulated(devices=2)
def test_moves_are_noted():
    import torch
    from locus.program import moments
    from locus.watch import hooks
    from torch import nn

    hooks.install_hooks()
    hooks.install_hooks()
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert moments.moves_of(net[1]) == (None, None)
    net.to("cuda")
    net[1].cuda(1)
    assert moments.moves_of(net[0])[1] == "cuda:0" and moments.moves_of(net[1])[1] == "cuda:1"
    assert moments.moves_of(net[0])[0]["text"].strip() == 'net.to("cuda")'
    net.to(torch.float16)
    assert moments.moves_of(net[0])[0]["text"].strip() == 'net.to("cuda")', "a dtype is no move"
    net.to(device=torch.device("cpu"))
    assert moments.moves_of(net[1])[1] == "cpu"
    net.to(torch.ones(1, device="cuda:1"))
    assert moments.moves_of(net)[1] == "cuda:1"
    moments.note_move(net, "cuda:0", 0)
    assert moments.moves_of(net) == (None, "cuda:0")


@simulated(devices=1)
def test_where_modules_are_made():
    import copy

    from locus.program import moments
    from locus.watch import hooks
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(2, 2)

    def build():
        return Net()

    hooks.install_hooks()
    net = build()
    assert [place["text"].strip() for place in moments.made_at(net)[:2]] == ["return Net()", "net = build()"]
    assert moments.made_at(net.head)[0]["text"].strip() == "self.head = nn.Linear(2, 2)"
    assert moments.made_at(copy.deepcopy(net))[0]["line"] == moments.made_at(net)[1]["line"] + 3
    other = build().cuda()
    assert moments.makes_others(net, 0, "cpu") and not moments.makes_others(net, 1, "cpu"), other


@simulated(devices=1)
def test_nothing_else_changes():
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    before = {name: inspect.signature(getattr(nn.Module, name)) for name in ("to", "cuda", "cpu")}
    load = inspect.signature(torch.load)
    from locus.watch import hooks

    from locus import faults

    hooks.install_hooks()
    assert before == {name: inspect.signature(getattr(nn.Module, name)) for name in before}
    assert load == inspect.signature(torch.load) and torch.serialization.load is torch.load

    class Custom(nn.Linear):
        def to(self, *args, **kwargs):
            self.seen = args
            return super().to(*args, **kwargs)

    layer = Custom(2, 2).to("cuda")
    assert layer.seen == ("cuda",) and layer.weight.is_cuda and layer.cuda() is layer
    copy = pickle.loads(pickle.dumps(nn.Linear(2, 2)))
    assert list(copy.state_dict()) == ["weight", "bias"]
    try:
        nn.Linear(2, 2).to("nonsense")
    except RuntimeError as error:
        assert "nonsense" in str(error)
    else:
        raise AssertionError("the error was lost")
    assert [len(batch) for batch in DataLoader(range(5), batch_size=2)] == [2, 2, 1]
    file = io.BytesIO()
    torch.save({"a": torch.ones(2)}, file)
    file.seek(0)
    assert torch.load(file, map_location="cuda")["a"].is_cuda
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    assert not faults.noted


@simulated(devices=1)
def test_notes_die_with_their_modules():
    import gc

    from locus.program import moments
    from locus.watch import hooks
    from torch import nn

    hooks.install_hooks()
    for _ in range(3):
        nn.Linear(2, 2).to("cuda")
    gc.collect()
    assert len(moments._moves) == 0


@simulated(devices=1)
def test_modules_with_a_hash_and_an_equality_of_their_own():
    """A module of a metrics library hashes its state, which is not there before its own __init__ has run."""
    from locus.program import moments
    from locus.watch import hooks
    from torch import nn

    class Metric(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.state = "ready"

        def __hash__(self):
            return hash(self.state)

        def __eq__(self, other):
            raise AssertionError("the program's own; not for Locus")

    hooks.install_hooks()
    first, second = Metric().to("cuda"), Metric()
    assert moments.moves_of(first)[1] == "cuda:0" and moments.moves_of(second) == (None, None)
    assert moments.made_at(first) and moments.made_at(second)


def test_tensors_in():
    import torch
    from locus.watch import hooks

    class Thing:
        def __init__(self):
            self.t, self.me = torch.ones(1), self

    found = hooks.tensors_in(
        {"a": [torch.ones(1), (torch.ones(2),)], "b": Thing(), "c": torch.nn.Linear(1, 1), "d": "x"}
    )
    assert len(found) == 5
