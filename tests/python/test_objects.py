"""One object graph, asked in four ways (findings, where(), place(), the models of a report): one answer."""

from simulated import simulated

EXPECTED = {
    "Net.fc.weight": "parameter",
    "Net.fc.weight.grad": "gradient",
    "Net.norm.running_mean": "buffer",
    "Net.stack[0].bias": "parameter",
    'Net.table["left"].weight': "parameter",
    "Net.scale": "plain-attribute",
    "Net.shared": "plain-attribute",
    "Net.masks[1]": "plain-container",
    'Net.heads["a"].weight': "plain-container",
    "Net.layers[0].weight": "plain-container",
    "Net.layers[0].cache": "plain-container",
    "Net.helper.mean": "plain-attribute",
    "Net.helper.parts[0]": "plain-attribute",
    "Net.slots.x": "plain-attribute",
    "Net.pair.y": "plain-container",
    "CrossEntropyLoss.weight": "loss-weight",
    'Adam.state[Net.fc.weight]["exp_avg"]': "optimizer-state",
    'Adam.state[Net.layers[0].weight]["exp_avg_sq"]': "optimizer-state",
}


def make():
    import collections
    import types

    import torch
    from torch import nn

    Pair = collections.namedtuple("Pair", "x y")

    class Slots:
        __slots__ = ("x",)

    class Net(nn.Module):
        shared = torch.ones(2)

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.norm = nn.BatchNorm1d(2)
            self.stack = nn.Sequential(nn.Linear(2, 2))
            self.table = nn.ModuleDict({"left": nn.Linear(2, 2)})
            self.scale = torch.ones(2)
            self.masks = [torch.zeros(2), torch.ones(2)]
            self.heads = {"a": nn.Linear(2, 2), "me": self}
            self.layers = (nn.Linear(2, 2),)
            self.layers[0].cache = [torch.ones(2)][0]
            self.helper = types.SimpleNamespace(mean=torch.ones(2), parts=[torch.ones(1)], device="cpu")
            self.slots = Slots()
            self.slots.x = torch.ones(1)
            self.pair = Pair(torch.ones(1), torch.ones(1))

        def forward(self, x):
            return self.layers[0](self.norm(self.fc(x)))

    net, criterion = Net(), nn.CrossEntropyLoss(weight=torch.ones(2))
    optimizer = torch.optim.Adam([*net.parameters(), *net.layers[0].parameters()])
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    return [net, optimizer, criterion]


def tensors_of(net, optimizer, criterion):
    """The same tensors as a program has them, by the names that are expected."""
    given = {"Net": net, "CrossEntropyLoss": criterion, "Adam": optimizer}
    return {name: eval(name, {}, given) for name in EXPECTED}


def by_findings(things):
    from locus.program import names

    tensors = tensors_of(*things)
    found = names.find(list(tensors.values()), [])
    matches = [found.best(number) for number in range(len(tensors))]
    return {match.name: match.kind for match in matches}


def full_names(rows):
    """(name, row) of each tensor of a tree, with the names of what is around it."""
    around = []
    for depth, name, kind, row in rows:
        del around[depth:]
        around.append(name.partition(":")[0])
        if kind not in ("", "module"):
            yield "".join(part if part.startswith("[") else f".{part}" for part in around).removeprefix("."), row


def by_where(things):
    import locus

    rows = locus.where(things, show=False).rows
    found = {}
    for name, row in full_names((row.depth, row.name, row.kind, row) for row in rows):
        for number, thing in enumerate(things):
            name = name.replace(f"list[{number}]", type(thing).__name__)
        assert row.kind == "gradient" or row.reached is not row.kind.startswith("plain-"), name
        found[name] = row.kind
    return found


def by_models():
    from locus.watch import models

    known = models.Models()
    known.look([])
    found = {}
    for model in known.rows():
        rows = [(row["depth"], row["name"], row["kind"], row) for row in model["rows"]]
        found.update((name, row["kind"]) for name, row in full_names(rows))
    return found


def by_place(things):
    import locus

    locus.place(*things, "cuda:0", show=False)
    return {moved.name: moved.kind for moved in locus.last_placement().moved}


@simulated(devices=1)
def test_all_ways_say_the_same():
    things = make()
    assert by_findings(things) == EXPECTED
    where, models = by_where(things), by_models()
    assert {name: where.get(name) for name in EXPECTED} == EXPECTED
    outside = [name for name, kind in EXPECTED.items() if kind in ("gradient", "optimizer-state")]
    outside += [name for name in EXPECTED if name.startswith(("Net.helper", "Net.slots"))]
    in_models = {name: kind for name, kind in EXPECTED.items() if name not in outside}
    assert {name: models.get(name) for name in in_models} == in_models
    assert not any(name in models for name in outside), "what is no part of a model is not in its tree"
    placed = by_place(things)
    assert {name: placed.get(name) for name in EXPECTED} == EXPECTED
    assert {name: where.get(name) for name in placed} == placed, "where() shows all that place() moves"
    assert all(tensor.device.type == "cuda" for tensor in tensors_of(*things).values())
    assert type(things[0]).shared.device.type == "cpu", "an object gets a tensor of its own for one of its class"


@simulated(devices=1)
def test_the_owner_of_each():
    from locus.program import names

    things = make()
    tensors = tensors_of(*things)
    found = names.find(list(tensors.values()), [])
    owners = {}
    for number, name in enumerate(tensors):
        holder, attribute, container = found.best(number).way
        owners[name] = (type(holder.module).__name__, holder.root_name, holder.path, attribute, container)
    assert owners["Net.fc.weight"] == ("Linear", "Net", "fc", "weight", None)
    assert owners["Net.stack[0].bias"] == ("Linear", "Net", "stack.0", "bias", None)
    assert owners['Net.heads["a"].weight'] == ("Net", "Net", "", "heads", "dict")
    assert owners["Net.layers[0].weight"] == ("Net", "Net", "", "layers", "tuple")
    assert owners["Net.helper.mean"] == ("Net", "Net", "", "helper.mean", None)
    assert owners["Net.shared"] == ("Net", "Net", "", "shared", None)
    state = 'state[Net.fc.weight]["exp_avg"]'
    assert owners[f"Adam.{state}"] == ("Adam", "Adam", "", state, None)


def test_what_is_behind_functions_is_shown_and_called():
    import functools

    import torch

    import locus

    table, bias = torch.ones(2), torch.ones(1)
    thing = {"call": lambda x: x + table, "part": functools.partial(torch.add, bias)}
    thing["d"] = torch.distributions.Bernoulli(bias)
    names = [name for name, _ in full_names((r.depth, r.name, r.kind, r) for r in locus.where(thing, show=False).rows)]
    assert 'dict["call"].table' in names and 'dict["part"].args[0]' in names and 'dict["d"].probs' in names


@simulated(devices=1)
def test_keys_of_all_kinds():
    import torch

    import locus

    thing = {(): torch.ones(1), ("_buffers", 1): torch.ones(2), torch.ones(2): torch.ones(3), None: torch.ones(4)}
    locus.place(thing, "cuda:0", show=False)
    assert all(value.device.type == "cuda" for value in thing.values()) and len(thing) == 4
    assert [moved.name for moved in locus.last_placement().moved] == ["dict[…]"] * 4


def test_a_lstm_has_no_weights_that_to_would_not_reach():
    import torch

    import locus

    assert all(row.reached for row in locus.where(torch.nn.LSTM(2, 2), show=False).rows)


def test_the_program_is_not_run():
    import torch
    from locus.program import objects

    class Row(list):
        def __iter__(self):
            raise AssertionError("__iter__ was run")

    class Sub(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("__torch_function__ was run")

    row = Row()
    list.append(row, torch.ones(1))
    with torch._C.DisableTorchFunctionSubclass():
        list.append(row, torch.ones(2).as_subclass(Sub))
    walk = objects.Walk()
    walk.add(row, "row")
    walk.run()
    assert [node.name for node in walk.tensors] == ["row[0]", "row[1]"]


def test_a_models_tree_has_only_tensors_with_a_size():
    import torch
    from locus.watch import models

    import locus

    class Net(torch.nn.Sequential):
        pass

    net = Net(torch.nn.Linear(2, 2), torch.nn.LazyLinear(2))
    net.seed, net.notes = torch.Generator(), {"text": "no tensor"}
    known = models.Models()
    known.at_move(net, "cpu")
    (model,) = known.rows()
    assert [row["name"] for row in model["rows"]] == ["Net", "[0]", "weight", "bias"]
    assert [row.name for row in locus.where(net, show=False).rows] == ["Net", "[0]: Linear", "weight", "bias"]
