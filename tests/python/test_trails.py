"""Trails: which lines a value passed, and which of them lost it. On the CPU alone, from live frames."""

import ast
import sys
import textwrap

import pytest
import torch
from locus.blame import causes, statements
from locus.program import places, trails


def look(tmp_path, text, expression):
    """The trail of an expression, at the place where the program calls probe()."""
    file = tmp_path / "program.py"
    text = textwrap.dedent(text).lstrip()
    file.write_text(text)
    found = []

    def probe():
        users = [f for f in places.walk(sys._getframe(1)) if f.f_code.co_filename == str(file)]
        way = trails.Trail(users, "cpu")
        way.follow(ast.parse(expression, mode="eval").body, users[0])
        found.append(way)

    exec(compile(text, str(file), "exec"), {"probe": probe, "torch": torch})
    return found[0]


def lost_at(way):
    return next((link.statement.lineno for link in causes._until_moved(way.links) if statements.said_at(link)), None)


def test_assignments_and_arguments(tmp_path):
    way = look(tmp_path, """
        def forward(x):
            probe()

        data = torch.ones(3)
        batch = data.view(3, 1)
        forward(batch)
    """, "x")  # fmt: skip
    assert [(link.how, link.statement.lineno) for link in way.links] == [
        ("argument", 6), ("assign", 5), ("assign", 4), ("made", 4)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, expression, line",
    [
        ("x, y = torch.ones(1), torch.ones(1)\nx, y = x.to('cpu'), y\nprobe()\n", "y", 2),
        ("y = torch.ones(1)\ny = y\nprobe()\n", "y", 2),
        ("y = torch.ones(1)\ny_gpu = y\nprobe()\n", "y_gpu", 2),
        ("def move(t, device):\n    return t\ny = move(torch.ones(1), 'cpu')\nprobe()\n", "y", 2),
        ("pair = [torch.ones(1)] * 2\na, b = (t for t in pair)\nprobe()\n", "b", 2),
        ("y = torch.ones(1)\nprobe()\n", "y", None),
        ("y = torch.ones(1)\nz = y * 2\nprobe()\n", "z", None),
    ],
)
def test_where_a_value_is_lost(tmp_path, text, expression, line):
    assert lost_at(look(tmp_path, text, expression)) == line


def test_what_was_moved_ends_the_trail(tmp_path):
    way = look(tmp_path, "x = torch.ones(1)\nx = x\nx = x.to('cpu')\nprobe()\n", "x")
    assert lost_at(way) is None


def test_a_tensor_that_follows_another(tmp_path):
    way = look(tmp_path, "a = torch.ones(2)\nb = torch.zeros(2, device=a.device)\nprobe()\n", "b")
    assert [ast.unparse(node) for _, node, _ in way.leaders] == ["a"]


def test_attributes(tmp_path):
    way = look(tmp_path, """
        class Table:
            def __init__(self):
                self.rows = torch.ones(4)
            def use(self):
                picked = self.rows[:2] * 2
                probe()

        Table().use()
    """, "picked")  # fmt: skip
    assert [ast.unparse(node) for _, node, _ in way.held] == ["self.rows"]
    assert ("attribute", 3) in [(link.how, link.statement.lineno) for link in way.links]


def test_recursion_and_loops_end(tmp_path):
    way = look(tmp_path, """
        def turn(x, n):
            if n == 0:
                probe()
                return x
            return turn(x, n - 1)

        x = torch.ones(1)
        for _ in range(3):
            x = turn(x, 20)
    """, "x")  # fmt: skip
    assert 0 < len(way.links) <= 40
