"""Every marked mistake of the wrong programs is found in one run, blamed on its line, for the right reason; nothing
else is found, and the program goes on to its end."""

import pytest
from checker import check, is_available, judge
from corpus import fixed, programs, read_mistakes

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")


@pytest.mark.parametrize("path", programs("wrong"), ids=lambda p: p.stem)
def test_wrong(program, path):
    mistakes = read_mistakes(path.read_text())
    checked = check(program, path)
    said = "\n".join(f"{f['reason']} at line {f['cause']['line']}: {f['culprit']['name']}" for f in checked.findings)
    for mistake in mistakes:
        verdict = judge(checked.findings, path, mistake.accepted_lines, mistake.reasons)
        wanted = f"mistake {mistake.number}: {mistake.reasons[0]} at line {mistake.line} ({mistake.culprits[0]})"
        assert verdict.blamed, f"{wanted} is not blamed; found:\n{said}\n{checked.result.describe()}"
        assert verdict.reason, f"{wanted} has another reason; found:\n{said}"
    # One finding for a mistake: what follows from it is not another.
    for finding in checked.errors:
        assert any(finding["cause"]["line"] in m.accepted_lines for m in mistakes), finding
    # A mistake does not stop a checked program: it prints as many lines as its fixed twin.
    expected = program.run(fixed(path), simulate=2).ok().stdout
    assert len(checked.stdout.splitlines()) == len(expected.splitlines()), checked.result.describe()
