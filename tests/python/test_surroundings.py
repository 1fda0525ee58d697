"""What stands around a call in a program's text: the `if`, the loop, the collective that comes next."""

import json
import os

import pytest
from locus.blame import surroundings
from locus.program import places

PROGRAM = """\
def save(metric):
    dist.all_reduce(metric)
    return metric


def train(loader, rank):
    for x in loader:
        step(x)
        if rank == 0:
            save(x)
        else:
            dist.barrier()
    if x > 3:
        return
    dist.broadcast(x, 0)
    dist.gather(x)


def step(x):
    while x:
        y = dist.all_reduce(x) if x else None
"""


@pytest.fixture
def around(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    os.utime(path, (0, 0))  # older than this process: it is what runs

    def ask(*lines):
        calls = []
        for line in lines:
            text = PROGRAM.split("\n")[line - 1]
            column = text.find("dist.") if "dist." in text else len(text) - len(text.lstrip())
            calls.append(places.location(str(path), line, line, column, text.find(")") + 1, ""))
        return json.loads(surroundings.around(calls))

    return ask


def test_the_if_of_a_caller_is_named(around):
    setting = around(2, 10)
    assert setting["branch"]["condition"] == "if rank == 0" and setting["by_rank"] and not setting["in_else"]
    assert setting["branch"]["at"]["line"] == 9 and setting["loops"][0]["condition"] == "for x in loader"
    assert setting["orders"][0]["text"] == "dist.all_reduce(metric)"
    assert setting["orders"][1]["text"] == "save(x)" and not setting["orders"][1]["next_text"]


def test_the_other_side(around):
    setting = around(12)
    assert setting["branch"]["at"]["line"] == 9 and setting["in_else"] and setting["by_rank"]


def test_a_way_out_before_the_call_and_the_call_after_it(around):
    setting = around(15)
    assert setting["branch"]["condition"] == "if x > 3" and setting["branch"]["leaves"] and not setting["by_rank"]
    (order,) = setting["orders"]
    assert order["next_text"] == "dist.gather(x)" and order["next"]["line"] == 16 and setting["loops"] == []


def test_the_loops_and_an_expression(around):
    setting = around(21, 8)
    assert [loop["condition"] for loop in setting["loops"]] == ["while x", "for x in loader"]
    assert setting["branch"]["condition"] == "if x"


def test_a_file_that_is_not_there_says_nothing():
    setting = json.loads(surroundings.around([places.location("/nowhere.py", 3, 3, 0, 1, "")]))
    assert setting["branch"] is None and setting["loops"] == [] and setting["orders"] == []
