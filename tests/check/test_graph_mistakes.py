"""Mistakes with CUDA graphs: each marked one is found in one run, at its line; the fixed twins and the idioms of good
programs have no finding."""

import pytest
from checker import DEADLINE, LOCUS, check, each_is_found_once, nothing_is_found
from corpus import fixed, programs, read_mistakes

PROGRAMS = programs("graphs")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]
KINDS = 30


def test_there_are_enough_kinds():
    assert sum(len(read_mistakes(path.read_text())) for path in WRONG) >= KINDS


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_mistake_is_found_once(program, path):
    each_is_found_once(program, path)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_twin_has_no_finding(program, path):
    nothing_is_found(program, fixed(path))


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_good_programs_have_no_finding(program, path):
    nothing_is_found(program, path)


@pytest.mark.parametrize("name", ["kept_results", "bound_inputs"])
def test_the_copies_are_written_and_verified(program, tmp_path, name):
    """`locus fix` keeps copies; then there is no finding, and the program prints what the twin prints."""
    (path,) = [path for path in WRONG if path.stem == name]
    target = tmp_path / path.name
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    assert target.read_text() != path.read_text(), result.describe()
    again = check(program, target, devices=1)
    assert again.findings == [], again.result.describe()
    assert again.stdout == program.run(fixed(path), simulate=1).ok().stdout
