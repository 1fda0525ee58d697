"""Edits: each kind made from real mismatches, in the line's own style; and sources that can't be edited."""

import ast
import os
import sys
import tempfile
import textwrap

from simulated import simulated

sys.path.insert(0, os.path.dirname(__file__))

from case_probe import cases_of, odd_operands
from edit_cases import EDITS, HANDOFFS
from locus.fixing import rewriting
from locus.program import source

START = """\
import torch
from torch import nn
import torch.nn.functional as F
x = torch.ones(2, 4, device="cuda:0")
"""


def edits_of(operand):
    """The edits that are offered for an operand, by kind; not those on the value's way."""
    made = {each["edit"]: each["fix"] for each in operand["candidates"] if each["fix"] is not None}
    made.pop("move_on_the_way", None)
    return made


def edits_named(kind, text):
    """The edits of one kind that the operands of a program's first case have, and the program's text."""
    folder = tempfile.mkdtemp()
    program = START + textwrap.dedent(text)
    cases = cases_of(program, folder)
    assert cases, "no mismatch was seen"
    found = [edits_of(operand)[kind] for operand in cases[0]["operands"] if kind in edits_of(operand)]
    offered = [sorted(edits_of(operand)) for operand in cases[0]["operands"]]
    return found, source.Source("program.py", program, editable=True), offered


def check(kind, text, old, new):
    found, file, offered = edits_named(kind, text)
    if not found:
        return f"no such edit, only {offered}"
    edit = found[0]
    if (edit["old"], edit["new"]) != (old, new):
        return f"{edit['old']!r} -> {edit['new']!r} at line {edit['line']}"
    if old and "\n".join(file.lines[edit["line"] - 1 :][: old.count("\n") + 1]) != old:
        return f"the old text is not at line {edit['line']}"
    edited = file.apply(edit)
    after = cases_of(edited, tempfile.mkdtemp())
    # What the edit is for must be gone, other operands may have their own mistakes.
    if len(after) >= len(cases_of(file.text, tempfile.mkdtemp())):
        return f"the edited program is no better:\n{edited}"
    return None


@simulated(devices=1)
def test_edits():
    wrong = {name: check(kind, text, old, new) for name, (text, kind, old, new) in EDITS.items()}
    wrong = {name: what for name, what in wrong.items() if what}
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


@simulated(devices=2)
def test_handoffs():
    wrong = {name: check("handoff", text, old, new) for name, (text, old, new) in HANDOFFS.items()}
    wrong = {name: what for name, what in wrong.items() if what}
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


@simulated(devices=1)
def test_windows_lines():
    text = START + "y = torch.ones(4)\nx + y\n"
    path = os.path.join(tempfile.mkdtemp(), "program.py")
    with open(path, "wb") as file:
        file.write(text.replace("\n", "\r\n").encode())
    case = case_of_code(text, path)
    operand = next(o for o in case["operands"] if o["odd"])
    assert edits_of(operand)["move_at_use"]["new"] == "x + y.to(x.device)" and case["use"]["text"] == "x + y"


def case_of_code(code, filename):
    """The first case of code that was compiled by itself."""
    from case_probe import probe

    mode = probe()
    with mode:
        exec(compile(code, filename, "exec"), {"__name__": "program"})
    return mode.cases[0]


@simulated(devices=1)
def test_without_source():
    from locus import faults

    case = case_of_code(START + "y = torch.ones(4)\nx + y\n", "<string>")
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["name"] == "y" and edits_of(operand) == {} and operand["expression"] is None
    assert case["use"]["line"] == 6 and case["use"]["text"] == "" and case["use"]["file"] == "<string>"
    assert not faults.noted


@simulated(devices=1)
def test_a_notebook_cell():
    import linecache

    code = START + "y = torch.ones(4)\nx + y\n"
    linecache.cache["<cell 1>"] = (len(code), None, code.splitlines(True), "<cell 1>")
    case = case_of_code(code, "<cell 1>")
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["expression"] == "y" and case["use"]["text"] == "x + y"
    assert edits_of(operand)["factory_device"]["new"] == 'y = torch.ones(4, device="cuda:0")'


@simulated(devices=1)
def test_changed_source():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "changed.py")
    code = START + "y = torch.ones(4)\nx + y\n"
    with open(path, "w") as file:
        file.write("# one more line\n" + code)
    case = case_of_code(code, path)
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["name"] == "y" and edits_of(operand) == {} and case["use"]["text"] == ""


@simulated(devices=1)
def test_other_encodings():
    folder = tempfile.mkdtemp()
    for name, head, encoding in (("latin.py", "# -*- coding: latin-1 -*-\n", "latin-1"), ("bad.py", "", "latin-1")):
        path = os.path.join(folder, name)
        code = head + "# ä\n" + START + "y = torch.ones(4)\nx + y\n"
        with open(path, "wb") as file:
            file.write(code.encode(encoding))
        case = case_of_code(code, path)
        operand = next(o for o in case["operands"] if o["odd"])
        assert operand["name"] == "y" and bool(edits_of(operand)) == bool(head), name


@simulated(devices=1)
def test_no_edit_towards_the_cpu():
    found = odd_operands(START + "y = torch.ones(4)\nx + y\n", tempfile.mkdtemp())
    case, _ = found[0]
    assert [sorted(edits_of(o)) for o in case["operands"] if not o["odd"]] == [[]]


def parsed(text):
    return source.Source("a.py", text, editable=True)


def test_arguments():
    for before, after in {
        "f()": "f(a=1)",
        "f(b)": "f(b, a=1)",
        "f(b, )": "f(b, a=1, )",
        "f(*b, **c)": "f(*b, **c, a=1)",
        "f((b))": "f((b), a=1)",
        "f(\n    b,  # c\n)": "f(\n    b, a=1,  # c\n)",
        "f(c=(1 +\n 2))": "f(c=(1 +\n 2), a=1)",
        "f(g for g in h)": None,
    }.items():
        file = parsed(before)
        edit = rewriting.add_argument(file, file.tree.body[0].value, "a=1")
        assert (file.apply(edit) if edit else None) == after


def test_appended_calls():
    for before, after in {
        "y": "y.cpu()",
        "a.b[0]": "a.b[0].cpu()",
        "f(x)": "f(x).cpu()",
        "a + b": "(a + b).cpu()",
        "-a": "(-a).cpu()",
        "(a + b)": "(a + b).cpu()",
        "a if b else c": "(a if b else c).cpu()",
        "(a +\n b)": "(a +\n b).cpu()",
        "lambda: 0": "(lambda: 0).cpu()",
    }.items():
        file = parsed(before)
        edit = rewriting.append_call(file, file.tree.body[0].value, ".cpu()")
        assert file.apply(edit) == after


def test_nodes_at_positions():
    file = parsed("z = f(a + b)[c] @ d.e(\n    g)\n")
    binop = file.tree.body[0].value
    assert file.at(1, 2, 4, 6) is binop
    assert ast.unparse(file.at(1, 1, 6, 11)) == "a + b"
    assert file.at(1, 1, -1, -1) is None
    # Python 3.12 and later start a call of a method at the method's name.
    assert ast.unparse(file.at(1, 2, 20, 6)) == "d.e(g)"
