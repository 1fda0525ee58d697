"""nn.DataParallel on simulated devices: inputs of all forms, what is pinned to one device, what PyTorch refuses."""

import json

START = """
import torch, warnings
from torch import nn
warnings.simplefilter("ignore")
"""

FORMS = (
    START
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.shifts = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))])

    def forward(self, x, scale=None, extra=None):
        y = self.layer(x) * self.shifts[0] + self.shifts[1]
        y = y if scale is None else y * scale
        return y if extra is None else y + extra["a"][0]

class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x).sum()

model = nn.DataParallel(Net().cuda(), device_ids=[0, 1, 2])
for rows in (7, 2, 1):
    x = torch.arange(4.0 * rows, device="cuda").reshape(rows, 4)
    assert torch.allclose(model(x), model.module(x), rtol=1e-5), rows
x, scale = torch.ones(6, 4, device="cuda"), torch.ones(6, 2, device="cuda")
assert model(x, scale=scale, extra={"a": [scale, 3]}).shape == (6, 2)
total = nn.DataParallel(Sum().cuda(), device_ids=[0, 1])(x)
assert total.shape == (2,)
total.mean().backward()
"""
)

PINNED = (
    START
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.shift = torch.ones(2, device="cuda:0")  # line 10

    def forward(self, x):
        return self.layer(x) + self.shift

nn.DataParallel(Net().cuda(), device_ids=[0, 1])(torch.ones(4, 4).cuda())
"""
)

NEVER_MOVED = START + "nn.DataParallel(nn.Linear(4, 2), device_ids=[0, 1])(torch.ones(4, 4).cuda()).sum().backward()\n"

LEFT_BEHIND = (
    START
    + """
net = nn.BatchNorm1d(4).cuda()
net.register_buffer("limits", torch.ones(4))
nn.DataParallel(net, device_ids=[0, 1])(torch.ones(4, 4).cuda())
"""
)

FAILS = (
    START
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        if x.get_device() == 1:
            raise ValueError("no good")
        return self.layer(x)

try:
    nn.DataParallel(Net().cuda(), device_ids=[0, 1])(torch.ones(4, 4).cuda())
except ValueError as error:
    print(str(error).splitlines()[0], "no good" in str(error))
"""
)


def findings(program, folder, text):
    path, report = folder / "program.py", folder / "report.json"
    path.write_text(text)
    result = program.call("rank_server:check", str(path), "1", str(report), "30", "3", deadline=40)
    outcome = json.loads(report.read_text())
    assert outcome["codes"] == {"0": 0}, result.describe()
    return outcome["report"]["findings"]


def test_inputs_of_all_forms(program, tmp_path):
    assert not findings(program, tmp_path, FORMS)


def test_what_is_pinned_to_one_device(program, tmp_path):
    (finding,) = findings(program, tmp_path, PINNED)
    assert finding["reason"] in ("replica-pinned", "plain-attribute") and finding["cause"]["line"] == 10, finding


def test_a_module_that_was_never_moved(program, tmp_path):
    (finding,) = findings(program, tmp_path, NEVER_MOVED)
    assert finding["reason"] == "model-not-moved" and finding["culprit"]["expected_device"] == "cuda:0", finding


def test_a_buffer_that_was_left_behind(program, tmp_path):
    (finding,) = findings(program, tmp_path, LEFT_BEHIND)
    assert finding["reason"] == "scattered-module" and finding["culprit"]["name"] == "limits", finding


def test_an_exception_names_the_replica(program):
    result = program.run_source(FAILS, simulate=2).ok()
    assert result.stdout == "Caught ValueError in replica 1 on device 1. True\n"
