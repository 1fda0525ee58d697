"""Every marked mistake of the buggy programs is found in one run, blamed on its line, for the right reason."""

import pytest
from checker import check, is_available, judge
from corpus import programs, read_mistakes

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")


@pytest.mark.parametrize("path", programs("buggy"), ids=lambda p: p.stem)
def test_every_mistake_is_found(program, path):
    mistakes = read_mistakes(path.read_text())
    checked = check(program, path)
    said = "\n".join(f"{f['reason']} at line {f['cause']['line']}: {f['culprit']['name']}" for f in checked.findings)
    for mistake in mistakes:
        verdict = judge(checked.findings, path, mistake.accepted_lines, mistake.reasons)
        wanted = f"mistake {mistake.number}: {mistake.reasons[0]} at line {mistake.line} ({mistake.culprits[0]})"
        assert verdict.blamed, f"{wanted} is not blamed; found:\n{said}\n{checked.result.describe()}"
        assert verdict.reason, f"{wanted} has another reason; found:\n{said}"


@pytest.mark.parametrize("path", programs("buggy"), ids=lambda p: p.stem)
def test_nothing_else_is_found(program, path):
    """One finding for a mistake: what follows from it is not another."""
    mistakes = read_mistakes(path.read_text())
    for finding in check(program, path).errors:
        assert any(finding["cause"]["line"] in m.accepted_lines for m in mistakes), finding


@pytest.mark.parametrize("path", programs("buggy"), ids=lambda p: p.stem)
def test_goes_on_to_the_end(program, path):
    """A mistake does not stop a checked program: it prints what its mended twin prints, line for line."""
    mended = path.parent.parent / "mended" / path.name
    expected = program.run(mended, simulate=2).ok().stdout
    assert len(check(program, path).stdout.splitlines()) == len(expected.splitlines())
