"""The marks of wrong programs say where the mistakes are and what the twin has; what they can't say is refused."""

import pytest
from corpus import fixed, fixed_source, mistake_of, only_mistake, read_changes, read_mistakes

SOURCE = """\
import torch

a = torch.ones(2)  # BUG: default-device culprit=a
# FIX: a = torch.ones(2, device="cuda")
def f(x):
# ADD 2: # a comment of the twin
    b = torch.ones(2)  # BUG: default-device|other culprit=b|f.b  # RAISES: 1
    # FIX: device = x.device
    # FIX: b = torch.ones(2, device=device)
    # ADD 1: b += 0
    # ADD: b += 1
    return x + b  # RAISES: 2  # ALSO: 2
    # FIX:

f(a)
"""

TWIN = """\
import torch

a = torch.ones(2, device="cuda")
def f(x):
# a comment of the twin
    device = x.device
    b = torch.ones(2, device=device)
    b += 0
    b += 1

f(a)
"""


def test_the_twin():
    assert fixed_source(SOURCE) == TWIN
    assert fixed_source(TWIN) == TWIN


def test_the_twin_is_a_file_of_the_same_name(tmp_path):
    path = tmp_path / "wrong" / "program.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    assert fixed(path).name == "program.py" and fixed(path).read_text() == TWIN
    assert fixed(path) == fixed(path) != path


def test_mistakes():
    first, second = read_mistakes(SOURCE)
    assert (first.line, first.reasons, first.culprits, first.raises) == (3, ["default-device"], ["a"], 7)
    assert (second.reasons, second.culprits) == (["default-device", "other"], ["b", "f.b"])
    assert second.accepted_lines == [7, 12] and second.raises == 12
    assert [mistake_of(change, [first, second]) for change in read_changes(SOURCE)] == [1, 2, 2, 1, 2, 2]


def test_a_mistake_without_a_culprit():
    (mistake,) = read_mistakes("x = 1  # BUG: rank-missing  # ALSO: 1\n")
    assert (mistake.reasons, mistake.culprits, mistake.also) == (["rank-missing"], [""], [1])


def test_one_mistake_left():
    text, where = only_mistake(SOURCE, 1)
    assert text == TWIN.replace(', device="cuda"', "").replace("    b += 0\n", "") and where[3] == 3 and where[15] == 10
    text, where = only_mistake(SOURCE, 2)
    lines = text.splitlines()
    assert lines[2] == 'a = torch.ones(2, device="cuda")' and "# a comment of the twin" not in text
    assert lines[where[7] - 1] == "    b = torch.ones(2)" and lines[where[12] - 1] == "    return x + b"


@pytest.mark.parametrize(
    "source, words",
    [
        ("# FIX: x = 1\n", "directly above"),
        ("\n# FIX: x = 1\n", "directly above"),
        ("x = 1\n# ADD: y = 1\n# FIX: x = 2\n", "directly above"),
        ("x = 1\n# ADD:\n", "no code"),
        ("x = 1\n# FIX: x = 2\n# FIX:\n", "no code"),
    ],
)
def test_marks_without_a_meaning(source, words):
    with pytest.raises(ValueError, match=words):
        read_changes(source)


def test_a_change_that_could_fix_either():
    source = "x = 1  # BUG: other\ny = 1  # BUG: other\nz = 1\n# FIX: z = 2\n"
    (change,) = read_changes(source)
    with pytest.raises(ValueError, match="which of the mistakes"):
        mistake_of(change, read_mistakes(source))
