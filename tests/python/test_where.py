"""locus.where() and locus.history(), with and without simulated devices."""

import collections
import os
import sys
import tempfile

import pytest
from simulated import simulated

sys.path.insert(0, os.path.dirname(__file__))


def model():
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.register_buffer("mean", torch.zeros(2))
            self.cache = torch.ones(3)
            self.layers = [nn.Linear(2, 1)]

    return Net()


def test_a_model(capsys):
    tree = locus_where(model())
    text = capsys.readouterr().out
    kinds = {row.name: (row.kind, row.reached) for row in tree.rows if row.kind}
    assert kinds["mean"] == ("buffer", True) and kinds["cache"] == ("plain-attribute", False)
    assert [row.reached for row in tree.rows if row.name == "weight"] == [True, False]
    lines = text.splitlines()
    assert lines[0] == "Net" and lines[-1] == "tensors: 6 on cpu"
    marked = [line.split()[0] for line in lines if "`.to()` would not reach this" in line]
    assert marked == ["cache", "layers:"], "what lies below a marked list is not marked again"
    assert repr(tree) == "<where: tensors: 6 on cpu>" and tree.devices == {"cpu": 6}


def locus_where(thing, **options):
    import locus

    return locus.where(thing, **options)


def test_an_optimizer(capsys):
    import torch

    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    locus_where(optimizer)
    text = capsys.readouterr().out
    assert 'state[param_groups[0][0]]["exp_avg"]' in text and "gradient" in text


def test_batches_and_other_things(capsys):
    import torch

    Pair = collections.namedtuple("Pair", "x y")
    batch = {"pair": Pair(torch.ones(2), torch.zeros(1)), "ids": [torch.ones(1)], 3: None, "n": 4}
    rows = locus_where(batch, show=False).rows
    assert [row.name for row in rows] == ["dict", '["pair"]: Pair', "x", "y", '["ids"]: list', "[0]"]
    assert capsys.readouterr().out == ""
    for thing in (3, "text", None, [], object(), torch.nn.ReLU()):
        assert locus_where(thing, show=False).summary() == "no tensors"
    assert locus_where(torch.ones(2), show=False).devices == {"cpu": 1}


def test_what_refers_to_itself():
    import torch

    thing = {"t": torch.ones(1)}
    thing["me"] = thing
    assert locus_where(thing, show=False).devices == {"cpu": 1}


def test_a_history_that_is_not_known(capsys):
    import torch

    import locus

    assert locus.history(torch.ones(2)) == [] or "locus._bridge" in sys.modules
    assert capsys.readouterr().out.startswith("float32[2] on cpu\n")
    with pytest.raises(TypeError, match=r"locus\.where"):
        locus.history([torch.ones(2)])


PROGRAM = """\
import torch, locus
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.cache = torch.zeros(3)
net = Net().to("cuda:0")
TREE = locus.where(net, show=False)
locus.history(net.fc.weight)
torch.ones(2, device="cuda:0") + net.cache[:2]
"""


@simulated(devices=1)
def test_histories_of_a_model():
    import contextlib
    import io

    from case_probe import cases_of

    import locus

    trees = []
    where = locus.where
    locus.where = lambda *args, **options: trees.append(where(*args, **options))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        cases_of(PROGRAM, tempfile.mkdtemp())
    history = {row.name: (row.device, row.history) for row in trees[0].rows}
    assert history["weight"] == ("cuda:0", 'moved by .to("cuda:0") at program.py:8')
    assert history["cache"] == ("cpu", "created by zeros() at program.py:7")
    lines = output.getvalue().splitlines()
    assert lines[0] == "float32[2, 2] on cuda:0"
    assert lines[1] == "  created by Linear() at program.py:6 on cpu"
    assert lines[2].strip() == "self.fc = nn.Linear(2, 2)"
    assert lines[3] == '  moved by .to("cuda:0") at program.py:8 on cuda:0'
