"""Mistakes with CUDA graphs: each marked one is found in one run, at its line; the fixed twins and the idioms of good
programs have no finding."""

import pytest
from checker import DEADLINE, LOCUS, check, judge
from corpus import fixed, programs, read_mistakes

PROGRAMS = programs("graphs")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]
KINDS = 22


def test_there_are_enough_kinds():
    assert sum(len(read_mistakes(path.read_text())) for path in WRONG) >= KINDS


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_each_mistake_is_found_once(program, path):
    mistakes = read_mistakes(path.read_text())
    checked = check(program, path, devices=1)
    said = "\n".join(f"{f['reason']} at line {f['cause']['line']}: {f['message']}" for f in checked.findings)
    for mistake in mistakes:
        verdict = judge(checked.findings, path, mistake.accepted_lines, mistake.reasons)
        wanted = f"mistake {mistake.number}: {mistake.reasons[0]} at line {mistake.line}"
        assert verdict.reason, f"{wanted} is not found; found:\n{said}\n{checked.result.describe()}"
    assert len(checked.findings) == len(mistakes), said
    assert not checked.report["notes"], checked.report["notes"]


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_the_twin_has_no_finding(program, path):
    twin = fixed(path)
    checked = check(program, twin, devices=1)
    assert checked.findings == [], checked.result.describe()
    assert checked.stdout == program.run(twin, simulate=1).ok().stdout


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_good_programs_have_no_finding(program, path):
    checked = check(program, path, devices=1)
    assert checked.findings == [], checked.result.describe()
    assert not checked.report["notes"], checked.report["notes"]
    assert checked.stdout == program.run(path, simulate=1).ok().stdout


def test_the_copies_are_written_and_verified(program, tmp_path):
    """`locus fix` keeps copies; then there is no finding, and the program prints what the twin prints."""
    (path,) = [path for path in WRONG if path.stem == "kept_results"]
    target = tmp_path / path.name
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    assert target.read_text() != path.read_text(), result.describe()
    again = check(program, target, devices=1)
    assert again.findings == [], again.result.describe()
    assert again.stdout == program.run(fixed(path), simulate=1).ok().stdout
