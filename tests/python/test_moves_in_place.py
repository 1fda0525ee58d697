"""What a move that is appended to an expression does to one that says a device already."""

import ast

import pytest
from locus.fixing import rewriting
from locus.program import source

CASES = {
    ("z.cpu()", ".to(z.device)"): "z",
    ('z.to("cpu")', ".to(z.device)"): "z",
    ("z.cpu()", ".to(y.device)"): "z.to(y.device)",
    ("z", ".to(z.device)"): None,
    ("z", ".to(y.device)"): "z.to(y.device)",
    ("z.cuda()", '.to("cuda:0" if cuda else "cpu")'): None,
    ("z.cuda()", '.to("cuda:1")'): 'z.to("cuda:1")',
    ('torch.zeros_like(p, device="cpu")', ".to(device)"): "torch.zeros_like(p, device=device)",
    ('torch.rand_like(p, device="cpu")', ".to(device)"): 'torch.rand_like(p, device="cpu").to(device)',
}


@pytest.mark.parametrize("written", CASES)
def test_a_move_takes_the_place_of_one_and_none_changes_nothing(written):
    file = source.Source("line.py", f"y = {written[0]}\n", editable=True)
    statement = file.tree.body[0]
    assert isinstance(statement, ast.Assign)
    edit = rewriting.append_call(file, statement.value, written[1])
    assert (edit["new"].strip() if edit else None) == (f"y = {CASES[written]}" if CASES[written] else None)
