"""The comparison with the schema can fail; every report of the other tests here goes through it (checker.py)."""

import copy

from checker import check_source
from schema import problems


def test_it_sees_what_is_wrong(program):
    text = "import torch\ntorch.ones(3, device='cuda') + torch.ones(3)\nfloat(torch.ones(1, device='cuda'))\n"
    report = check_source(program, text).report
    assert problems(report) == [] and report["findings"] and report["syncs"] and report["memory"]
    for break_it in (
        lambda r: r.pop("version"),
        lambda r: r.update(version=3),
        lambda r: r["findings"][0].update(reason="no such reason"),
        lambda r: r["findings"][0].update(severity="fatal"),
        lambda r: r["findings"][0]["cause"].update(line="3"),
        lambda r: r["findings"][0]["cause"].pop("file"),
        lambda r: r["syncs"][0].update(count=1.5),
        lambda r: r["program"].update(steps=None),
    ):
        broken = copy.deepcopy(report)
        break_it(broken)
        assert problems(broken), break_it
