"""The score of unseen programs counts rightly."""

import pytest
import unseen
from checker import judge
from corpus import read_mistakes

SOURCE = """\
import torch

a = torch.ones(2)  # BUG: any culprit=a
# FIX: a = torch.ones(2, device="cuda")
b = torch.zeros(2)  # BUG: any culprit=b  # RAISES: 1
# FIX: b = torch.zeros(2, device=a.device)
print(a + b)  # RAISES: 2  # ALSO: 2
"""


def finding(line, *uses, reason="index"):
    return {
        "cause": {"file": "/tmp/program.py", "line": line, "text": ""},
        "culprit": {"name": "x"},
        "reason": reason,
        "uses": [{"file": "/tmp/program.py", "line": use} for use in uses],
    }


def test_any_reason_is_right_where_the_mark_says_so():
    assert judge([finding(3)], "program.py", [3], ["any"]).reason
    assert not judge([finding(3)], "program.py", [3], ["other"]).reason


def test_a_finding_counts_for_one_mistake():
    mistakes = read_mistakes(SOURCE)
    assert unseen.assign([], mistakes, "program.py") == (0, 0)
    assert unseen.assign([finding(3), finding(3)], mistakes, "program.py") == (2, 1)
    assert unseen.assign([finding(3), finding(7)], mistakes, "program.py") == (2, 2)
    assert unseen.assign([finding(1, 7)], mistakes, "program.py") == (1, 0)
    assert unseen.assign([finding(3)], mistakes, "other.py") == (1, 0)


def test_edits():
    assert unseen.edits("a\nb\nc\n", "a\nx\ny\nz\nc\n") == [unseen.Edit(2, ["b"], ["x", "y", "z"])]
    assert [edit.line for edit in unseen.edits("a\nb\nc\n", "x\ny\nc\nd\n")] == [1, 2, 4]


@pytest.mark.parametrize(
    "old, new, literals",
    [
        ("zeros(2)  #", "zeros(2, device='cuda:1')  #", 1),
        ("zeros(2)  #", "zeros(2).cuda()  #", 1),
        ("zeros(2)  #", "zeros(2, device='cuda')  #", 0),  # the twin has it, if elsewhere
        ("ones(2)  #", "ones(2, device='cuda:0')  #", 0),  # the twin has another literal here
        ("b = torch.zeros(2)  #", "b = torch.zeros(2, device=a.device)  #", 0),
        ("print(a", "print(a.to('cuda:0')", 1),
    ],
)
def test_literals(old, new, literals):
    (edit,) = unseen.edits(SOURCE, SOURCE.replace(old, new))
    assert unseen.literals([edit], SOURCE) == literals


def test_a_literal_that_was_there_is_not_counted():
    assert unseen.literals([unseen.Edit(1, ["x = x.to('cuda:1')"], ["y = x.to('cuda:1')"])], SOURCE) == 0
