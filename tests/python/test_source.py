"""Edits: each kind made from real mismatches, in the line's own style; and sources that can't be edited."""

import ast
import os
import sys
import tempfile
import textwrap

from simulated import simulated

sys.path.insert(0, os.path.dirname(__file__))

from case_probe import cases_of, odd_operands

from locus import rewriting, source

START = """\
import torch
from torch import nn
import torch.nn.functional as F
x = torch.ones(2, 4, device="cuda:0")
"""

# name of the test: program, edit kind, old line (or "" for an insertion), new text. The edited program must be right.
EDITS = {
    "register_buffer": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe = torch.zeros(4)    # table
            def forward(self, x):
                return x + self.pe
        net = Net().cuda()
        net(x)
        """,
        "register_buffer",
        "        self.pe = torch.zeros(4)    # table",
        '        self.register_buffer("pe", torch.zeros(4), persistent=False)    # table',
    ),
    "register_buffer over lines": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe: torch.Tensor = torch.zeros(
                    4,  # wide
                )
            def forward(self, x):
                return x + self.pe
        net = Net().cuda()
        net(x)
        """,
        "register_buffer",
        "        self.pe: torch.Tensor = torch.zeros(\n            4,  # wide\n        )",
        '        self.register_buffer("pe", torch.zeros(\n            4,  # wide\n        ), persistent=False)',
    ),
    "module_list": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(4, 4) for _ in range(2)]  # two
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        net = Net().to("cuda:0")
        net(x)
        """,
        "module_list",
        "        self.layers = [nn.Linear(4, 4) for _ in range(2)]  # two",
        "        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])  # two",
    ),
    "module_list for a dict": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads={'a':nn.Linear(4, 4)}
            def forward(self, x):
                return self.heads['a'](x)
        net = Net().to("cuda:0")
        net(x)
        """,
        "module_list",
        "        self.heads={'a':nn.Linear(4, 4)}",
        "        self.heads=nn.ModuleDict({'a':nn.Linear(4, 4)})",
    ),
    "factory_device": (
        """
        def use(x):
            t = torch.arange(x.size(1))   # positions
            return x + t
        use(x)
        """,
        "factory_device",
        "    t = torch.arange(x.size(1))   # positions",
        "    t = torch.arange(x.size(1), device=x.device)   # positions",
    ),
    "factory_device with a variable": (
        """
        def use(x, device):
            t = torch.full((4,), 2.0, )
            return x + t
        use(x, torch.device("cuda:0"))
        """,
        "factory_device",
        "    t = torch.full((4,), 2.0, )",
        "    t = torch.full((4,), 2.0, device=device, )",
    ),
    "factory_device over lines": (
        """
        dev = "cuda"
        t = torch.zeros(
            4,
            dtype=torch.float32,  # exact
        )
        x + t
        """,
        "factory_device",
        "    dtype=torch.float32,  # exact",
        "    dtype=torch.float32, device=dev,  # exact",
    ),
    "factory_device that was there": (
        """
        t = torch.zeros(4, device="cpu")
        x + t
        """,
        "factory_device",
        't = torch.zeros(4, device="cpu")',
        "t = torch.zeros(4, device=x.device)",
    ),
    "factory_device for a bare call": (
        """
        t = torch.ones(())[None].expand(4)
        x + t
        """,
        "factory_device",
        "t = torch.ones(())[None].expand(4)",
        "t = torch.ones((), device=x.device)[None].expand(4)",
    ),
    "assign_to": (
        """
        device = torch.device("cuda:0")
        y = torch.ones(4)
        y.to(device)  # BUG
        x + y
        """,
        "assign_to",
        "y.to(device)  # BUG",
        "y = y.to(device)  # BUG",
    ),
    "assign_to an attribute": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.pe = torch.zeros(4)
            def forward(self, x):
                self.pe.to(x.device)
                return x + self.pe
        net = Net()
        net(x)
        """,
        "assign_to",
        "        self.pe.to(x.device)",
        "        self.pe = self.pe.to(x.device)",
    ),
    "move_at_use": (
        """
        y = torch.ones(4)
        z = x +  y   # sum
        """,
        "move_at_use",
        "z = x +  y   # sum",
        "z = x +  y.to(x.device)   # sum",
    ),
    "move_at_use of an expression": (
        """
        y = torch.ones(4)
        z = x + -y
        """,
        "move_at_use",
        "z = x + -y",
        "z = x + (-y).to(x.device)",
    ),
    "move_at_use in parentheses": (
        """
        y = torch.ones(4)
        z = x + (y * 2) - 1
        """,
        "move_at_use",
        "z = x + (y * 2) - 1",
        "z = x + (y * 2).to(x.device) - 1",
    ),
    "move_at_use in a call": (
        """
        y = torch.ones(2, 4)
        z = F.mse_loss(
            x,
            y * 2,
        )
        """,
        "move_at_use",
        "    y * 2,",
        "    (y * 2).to(x.device),",
    ),
    "move_at_use after letters of more bytes": (
        """
        größe = torch.ones(4)
        z = "äöü", x + größe  # ß
        """,
        "move_at_use",
        'z = "äöü", x + größe  # ß',
        'z = "äöü", x + größe.to(x.device)  # ß',
    ),
    "move_at_use in a method": (
        """
        class Trainer:
            def __init__(self):
                self.device = "cuda:0"
                self.mean = torch.ones(4)
            def norm(self, a):
                return a - self.mean
        Trainer().norm(x)
        """,
        "move_at_use",
        "        return a - self.mean",
        "        return a - self.mean.to(self.device)",
    ),
    "move_at_use in cat": (
        """
        y = torch.ones(2, 4)
        torch.cat([x, y], dim=0)
        """,
        "move_at_use",
        "torch.cat([x, y], dim=0)",
        "torch.cat([x, y.to(x.device)], dim=0)",
    ),
    "move_batch": (
        """
        device = "cuda:0"
        loader = [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]
        criterion = nn.CrossEntropyLoss()
        for inputs, targets in loader:
            inputs = inputs.to(device, non_blocking=True)  # copy
            criterion(inputs, targets)
        """,
        "move_batch",
        "",
        "    targets = targets.to(device, non_blocking=True)",
    ),
    "move_batch first in the loop": (
        """
        loader = [(torch.ones(2, 4), torch.zeros(2, dtype=torch.long))]
        criterion = nn.CrossEntropyLoss()
        for inputs, targets in loader:
            # the step
            criterion(inputs.cuda(), targets)
        """,
        "move_batch",
        "",
        '    targets = targets.to("cuda:0")',
    ),
    "move_batch of a dict": (
        """
        device = torch.device("cuda", 0)
        loader = [{"ids": x, "mask": torch.ones(2, 4)}]
        for batch in loader:
            ids = batch["ids"]
            ids * batch["mask"]
        """,
        "move_batch",
        "",
        '    batch["mask"] = batch["mask"].to(device)',
    ),
    "move_batch where it is unpacked": (
        """
        device = "cuda"
        loader = [(x, torch.ones(2, 4))]
        for batch in loader:
            a, b = batch
            a + b
        """,
        "move_batch",
        "",
        "    b = b.to(device)",
    ),
    "move_module": (
        """
        def main():
            device = torch.device("cuda")
            model = nn.Linear(4, 4)  # small
            model(x)
        main()
        """,
        "move_module",
        "    model = nn.Linear(4, 4)  # small",
        "    model = nn.Linear(4, 4).to(device)  # small",
    ),
    "move_module of a trainer": (
        """
        class Trainer:
            def __init__(self, device):
                self.model = nn.Linear(
                    4, 4
                )
            def fit(self):
                self.model(x)
        Trainer("cuda:0").fit()
        """,
        "move_module",
        "        )",
        "        ).to(device)",
    ),
    "move_weight": (
        """
        criterion = nn.CrossEntropyLoss(weight=torch.ones(4))
        criterion(x, torch.zeros(2, dtype=torch.long, device="cuda:0"))
        """,
        "move_weight",
        "criterion = nn.CrossEntropyLoss(weight=torch.ones(4))",
        'criterion = nn.CrossEntropyLoss(weight=torch.ones(4)).to("cuda:0")',
    ),
    "map_location": (
        """
        import io
        device = torch.device("cuda:0")
        file = io.BytesIO()
        torch.save(torch.ones(4), file)
        file.seek(0)
        y = torch.load(file)
        x + y
        """,
        "map_location",
        "y = torch.load(file)",
        "y = torch.load(file, map_location=device)",
    ),
    "map_location that was there": (
        """
        import io
        file = io.BytesIO()
        torch.save(torch.ones(4), file)
        file.seek(0)
        y = torch.load(file, map_location="cpu")
        x + y
        """,
        "map_location",
        'y = torch.load(file, map_location="cpu")',
        "y = torch.load(file, map_location=x.device)",
    ),
    "cpu_lengths": (
        """
        lengths = torch.tensor([4, 3], device="cuda:0")
        torch._C._VariableFunctions._pack_padded_sequence(x, lengths, True)
        """,
        "cpu_lengths",
        "torch._C._VariableFunctions._pack_padded_sequence(x, lengths, True)",
        "torch._C._VariableFunctions._pack_padded_sequence(x, lengths.cpu(), True)",
    ),
    "optimizer_state": (
        """
        net = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        net.to("cuda:0")
        optimizer.step()
        """,
        "optimizer_state",
        "",
        "optimizer.load_state_dict(optimizer.state_dict())",
    ),
}

HANDOFFS = {
    "handoff": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4).to("cuda:0")
                self.b = nn.Linear(4, 4).to("cuda:1")
            def forward(self, x):
                h = self.a(x)
                return self.b(h)  # next
        net = Net()
        net(x)
        """,
        "        return self.b(h)  # next",
        '        return self.b(h.to("cuda:1"))  # next',
    ),
    "handoff with names": (
        """
        FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
        class Stage(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
        second = Stage().to(SECOND)
        second(x * 2)
        second(torch.relu(x))
        """,
        "second(x * 2)",
        "second((x * 2).to(SECOND))",
    ),
}


def edits_named(kind, text):
    """The edits of one kind that the operands of a program's first case have, and the program's text."""
    folder = tempfile.mkdtemp()
    program = START + textwrap.dedent(text)
    cases = cases_of(program, folder)
    assert cases, "no mismatch was seen"
    found = [operand["edits"][kind] for operand in cases[0]["operands"] if kind in operand["edits"]]
    offered = [sorted(operand["edits"]) for operand in cases[0]["operands"]]
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
    assert operand["edits"]["move_at_use"]["new"] == "x + y.to(x.device)" and case["use"]["text"] == "x + y"


def case_of_code(code, filename):
    """The first case of code that was compiled by itself."""
    from case_probe import probe

    mode = probe()
    with mode:
        exec(compile(code, filename, "exec"), {"__name__": "program"})
    return mode.cases[0]


@simulated(devices=1)
def test_without_source():
    from locus import facts

    case = case_of_code(START + "y = torch.ones(4)\nx + y\n", "<string>")
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["name"] == "y" and operand["edits"] == {} and operand["expression"] is None
    assert case["use"]["line"] == 6 and case["use"]["text"] == "" and case["use"]["file"] == "<string>"
    assert not facts.faults


@simulated(devices=1)
def test_a_notebook_cell():
    import linecache

    code = START + "y = torch.ones(4)\nx + y\n"
    linecache.cache["<cell 1>"] = (len(code), None, code.splitlines(True), "<cell 1>")
    case = case_of_code(code, "<cell 1>")
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["expression"] == "y" and case["use"]["text"] == "x + y"
    assert operand["edits"] == {}, "there is no file to edit"


@simulated(devices=1)
def test_changed_source():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "changed.py")
    code = START + "y = torch.ones(4)\nx + y\n"
    with open(path, "w") as file:
        file.write("# one more line\n" + code)
    case = case_of_code(code, path)
    operand = next(o for o in case["operands"] if o["odd"])
    assert operand["name"] == "y" and operand["edits"] == {} and case["use"]["text"] == ""


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
        assert operand["name"] == "y" and bool(operand["edits"]) == bool(head), name


@simulated(devices=1)
def test_no_edit_towards_the_cpu():
    found = odd_operands(START + "y = torch.ones(4)\nx + y\n", tempfile.mkdtemp())
    case, _ = found[0]
    assert [sorted(o["edits"]) for o in case["operands"] if not o["odd"]] == [[]]


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
