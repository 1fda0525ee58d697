"""Which programs mean to catch the error: each shape of `try` and `with`, and the loops between it and the call."""

import contextlib
import os
import sys
import textwrap
import types
import unittest

import pytest
from locus.watch import handlers

import locus

# name of the test: program, expected answer, text of the handler's line (None: no handler).
PROGRAMS = {
    "nothing": ("call()", "go-on", None),
    "bare except": ("try:\n    call()\nexcept:\n    pass", "raise", "except:"),
    "RuntimeError": (
        "try:\n    call()\nexcept RuntimeError as error:\n    pass",
        "raise", "except RuntimeError as error:",
    ),
    "Exception": ("try:\n    call()\nexcept Exception:\n    pass", "raise", "except Exception:"),
    "BaseException": ("try:\n    call()\nexcept BaseException:\n    pass", "raise", "except BaseException:"),
    "tuple": (
        "try:\n    call()\nexcept (ValueError, RuntimeError):\n    pass",
        "raise", "except (ValueError, RuntimeError):",
    ),
    "tuple by name": ("E = (ValueError, RuntimeError)\ntry:\n    call()\nexcept E:\n    pass", "raise", "except E:"),
    "another name": ("Err = RuntimeError\ntry:\n    call()\nexcept Err:\n    pass", "raise", "except Err:"),
    "other errors": ("try:\n    call()\nexcept ValueError:\n    pass", "go-on", None),
    "a subclass": ("import torch\ntry:\n    call()\nexcept torch.OutOfMemoryError:\n    pass", "go-on", None),
    "accelerator errors": ("import torch\ntry:\n    call()\nexcept torch.AcceleratorError:\n    pass", "go-on", None),
    "another clause first": (
        "try:\n    call()\nexcept ValueError:\n    pass\nexcept Exception:\n    pass", "raise", "except Exception:",
    ),
    "unknown class": ("try:\n    call()\nexcept make():\n    pass", "go-on", None),
    "in the handler": ("try:\n    1 / 0\nexcept Exception:\n    call()", "go-on", None),
    "in else": ("try:\n    pass\nexcept Exception:\n    pass\nelse:\n    call()", "go-on", None),
    "in finally": ("try:\n    pass\nexcept Exception:\n    pass\nfinally:\n    call()", "go-on", None),
    "after it": ("try:\n    pass\nexcept Exception:\n    pass\ncall()", "go-on", None),
    "only finally": ("try:\n    call()\nfinally:\n    pass", "go-on", None),
    "inner does not match": (
        "try:\n    try:\n        call()\n    except ValueError:\n        pass\nexcept Exception:\n    pass",
        "raise", "except Exception:",
    ),
    "inner in the outer's else": (
        "try:\n    pass\nexcept Exception:\n    pass\nelse:\n    try:\n        call()\n"
        "    except RuntimeError:\n        pass",
        "raise", "except RuntimeError:",
    ),
    "around a loop": (
        "try:\n    for i in range(1):\n        call()\nexcept Exception:\n    pass", "go-on", "except Exception:",
    ),
    "around a while": (
        "n = 1\ntry:\n    while n:\n        n = 0\n        call()\nexcept Exception:\n    pass",
        "go-on", "except Exception:",
    ),
    "in a loop": (
        "for i in range(1):\n    try:\n        call()\n    except Exception:\n        pass",
        "raise", "except Exception:",
    ),
    "in the else of a loop": (
        "try:\n    for i in []:\n        pass\n    else:\n        call()\nexcept Exception:\n    pass",
        "raise", "except Exception:",
    ),
    "in the iterable of a loop": (
        "try:\n    for i in [call()]:\n        pass\nexcept Exception:\n    pass", "raise", "except Exception:",
    ),
    "in a function": (
        "def f():\n    call()\ntry:\n    f()\nexcept Exception:\n    pass", "raise", "except Exception:",
    ),
    "in a function with a loop": (
        "def f():\n    for i in range(1):\n        call()\ntry:\n    f()\nexcept Exception:\n    pass",
        "go-on", "except Exception:",
    ),
    "handler in the function": (
        "def f():\n    try:\n        call()\n    except RuntimeError:\n        pass\ntry:\n"
        "    f()\nexcept Exception:\n    pass",
        "raise", "except RuntimeError:",
    ),
    "defined in a try, called elsewhere": (
        "try:\n    def f():\n        call()\nexcept Exception:\n    pass\nf()", "go-on", None,
    ),
    "a method": (
        "class A:\n    def f(self):\n        call()\ntry:\n    A().f()\nexcept Exception:\n    pass",
        "raise", "except Exception:",
    ),
    "a lambda": ("f = lambda: call()\ntry:\n    f()\nexcept Exception:\n    pass", "raise", "except Exception:"),
    "a comprehension": ("try:\n    [call() for i in [1]]\nexcept Exception:\n    pass", "raise", "except Exception:"),
    "a generator": (
        "def g():\n    yield call()\ntry:\n    next(g())\nexcept Exception:\n    pass", "raise", "except Exception:",
    ),
    "a decorated function": (
        "def d(f):\n    return f\n@d\ndef f():\n    try:\n        call()\n    except Exception:\n        pass\nf()",
        "raise", "except Exception:",
    ),
    "passed on": ("try:\n    call()\nexcept Exception:\n    print('oops')\n    raise", "go-on", None),
    "passed on by name": ("try:\n    call()\nexcept Exception as e:\n    raise e", "go-on", None),
    "passed on at times": (
        "try:\n    call()\nexcept RuntimeError as e:\n    if 'memory' in str(e):\n        raise\n    n = 0",
        "raise", "except RuntimeError as e:",
    ),
    "turned into another": (
        "try:\n    call()\nexcept RuntimeError as e:\n    raise ValueError('x') from e",
        "raise", "except RuntimeError as e:",
    ),
    "passed on, then caught": (
        "try:\n    try:\n        call()\n    except RuntimeError:\n        raise\nexcept Exception:\n    pass",
        "raise", "except Exception:",
    ),
    "pytest.raises": (
        "with pytest.raises(RuntimeError, match='device'):\n    call()",
        "raise", "with pytest.raises(RuntimeError, match='device'):",
    ),
    "pytest.raises around a loop": (
        "with pytest.raises(RuntimeError):\n    for i in range(1):\n        call()",
        "raise", "with pytest.raises(RuntimeError):",
    ),
    "pytest.raises of others": ("with pytest.raises(ValueError):\n    call()", "go-on", None),
    "suppress": (
        "with contextlib.suppress(ValueError, RuntimeError):\n    call()",
        "raise", "with contextlib.suppress(ValueError, RuntimeError):",
    ),
    "suppress of others": ("with contextlib.suppress(KeyError):\n    call()", "go-on", None),
    "assertRaises": (
        "with case.assertRaises(RuntimeError):\n    call()",
        "raise", "with case.assertRaises(RuntimeError):",
    ),
    "assertRaises as a function": (
        "case.assertRaises(RuntimeError, call, 1)",
        "raise", "case.assertRaises(RuntimeError, call, 1)",
    ),
    "several contexts": (
        "with open('/dev/null') as f, pytest.raises(RuntimeError):\n    call()", "raise",
        "with open('/dev/null') as f, pytest.raises(RuntimeError):",
    ),
    "another context": ("with open('/dev/null') as f:\n    call()", "go-on", None),
    "one line": ("try: call()\nexcept Exception: pass", "raise", "except Exception: pass"),
    "over lines": (
        "try:\n    x = (1,\n         call(\n         ))\nexcept Exception:\n    pass",
        "raise", "except Exception:",
    ),
    "nested functions": (
        "def outer():\n    def inner():\n        call()\n    try:\n        inner()\n"
        "    except Exception:\n        pass\nouter()",
        "raise", "except Exception:",
    ),
    "match": (
        "match 1:\n    case 1:\n        try:\n            call()\n        except Exception:\n            pass",
        "raise", "except Exception:",
    ),
}  # fmt: skip


def make_call(answers):
    """A function that stands for the operator: its frame passes for Locus's, and it raises what PyTorch would."""
    module = types.ModuleType("probe")
    file = os.path.join(os.path.dirname(os.path.abspath(locus.__file__)), "_probe.py")
    code = "def call(*_):\n    answers.append(find(sys._getframe(1)))\n    raise RuntimeError('device')\n"
    module.__dict__.update(answers=answers, find=handlers.find_handler, sys=sys)
    exec(compile(code, file, "exec"), module.__dict__)
    return module.call


def answer_of(text, folder, file=True):
    answers = []
    path = os.path.join(str(folder), "program.py") if file else "<string>"
    text = textwrap.dedent(text) + "\n"
    if file:
        with open(path, "w") as opened:
            opened.write(text)
    names = {"call": make_call(answers), "pytest": pytest, "contextlib": contextlib, "case": unittest.TestCase()}
    with contextlib.suppress(Exception):
        exec(compile(text, path, "exec"), {"__name__": "program", **names})
    return answers[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_handler(name, tmp_path):
    text, expected, line = PROGRAMS[name]
    answer, place = answer_of(text, tmp_path)
    # This test itself is on the stack: its `suppress` is what catches when the program does not.
    if place is not None and place["file"] == __file__:
        answer, place = "go-on", None
    assert (answer, place and place["text"].strip()) == (expected, line)


def test_the_answer_is_the_same_again(tmp_path):
    text = PROGRAMS["RuntimeError"][0]
    assert answer_of(text, tmp_path)[0] == answer_of(text, tmp_path)[0] == "raise"


def test_without_source(tmp_path):
    answer, place = answer_of(PROGRAMS["RuntimeError"][0], tmp_path, file=False)
    assert place is None or place["file"] == __file__, answer


def test_a_place_has_columns(tmp_path):
    _, place = answer_of(PROGRAMS["RuntimeError"][0], tmp_path)
    assert place["text"][place["column"] : place["end_column"]] == "except RuntimeError as error:"
    assert place["line"] == place["end_line"] == 3
