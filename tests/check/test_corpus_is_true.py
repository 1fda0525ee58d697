"""What the programs of tests/programs/wrong and correct say about themselves is what PyTorch does."""

import pytest
from corpus import (
    DEVICES,
    REASONS,
    fixed_programs,
    is_device_error,
    mistake_of,
    only_mistake,
    programs,
    raises_nothing,
    read_changes,
    read_mistakes,
    stopped_at,
)

WRONG, CORRECT = programs("wrong"), programs("correct")
SINGLE = [
    pytest.param(path, m.number, id=f"{path.stem}-{m.number}")
    for path in WRONG
    for m in read_mistakes(path.read_text())
]


def name(path):
    return path.stem


def test_there_are_enough():
    assert len(WRONG) >= 28 and len(CORRECT) >= 30
    reasons = {reason for path in WRONG for m in read_mistakes(path.read_text()) for reason in m.reasons[:1]}
    assert reasons == REASONS, REASONS ^ reasons


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_marks(path):
    source = path.read_text()
    mistakes = read_mistakes(source)
    assert 1 <= len(mistakes) <= 3
    for mistake in mistakes:
        assert set(mistake.reasons) <= REASONS
        assert mistake.raises or raises_nothing(source), f"mistake {mistake.number} has no RAISES"


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_twin_differs_at_the_marked_lines(path):
    source = path.read_text()
    mistakes, changes = read_mistakes(source), read_changes(source)
    for mistake in mistakes:
        changed = {change.line for change in changes if mistake_of(change, mistakes) == mistake.number}
        assert changed, f"mistake {mistake.number} is not fixed"
        assert changed & set(mistake.accepted_lines), f"mistake {mistake.number}: none of its lines is fixed"


@pytest.mark.parametrize("path", WRONG, ids=name)
def test_stops_where_it_says(program, path):
    source = path.read_text()
    result = program.run(path, simulate=DEVICES)
    if raises_nothing(source):
        result.ok()
        return
    assert result.code != 0, result.describe()
    assert is_device_error(result.stderr), result.describe()
    assert stopped_at(result.stderr, str(path)) == read_mistakes(source)[0].raises, result.describe()


@pytest.mark.parametrize("path, number", SINGLE)
def test_each_mistake_alone_stops_the_program(program, tmp_path, path, number):
    source = path.read_text()
    if raises_nothing(source):
        pytest.skip("PyTorch lets it pass")
    text, where = only_mistake(source, number)
    script = tmp_path / path.name
    script.write_text(text)
    result = program.run(script, simulate=DEVICES)
    assert result.code != 0 and is_device_error(result.stderr), result.describe()
    assert stopped_at(result.stderr, str(script)) == where[read_mistakes(source)[number - 1].raises], result.describe()


@pytest.mark.parametrize("path", fixed_programs() + CORRECT, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_runs_to_its_end(program, path):
    result = program.run(path, simulate=DEVICES).ok()
    assert result.stdout and "locus: " not in result.stderr, result.describe()
