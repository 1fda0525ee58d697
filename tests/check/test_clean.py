"""A correct program gets no finding, and prints what it prints without the checker."""

import pytest
from checker import check, is_available
from corpus import DEVICES, fixed_programs, programs

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")


@pytest.mark.parametrize("path", fixed_programs() + programs("correct"), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_correct_program(program, path):
    checked = check(program, path)
    assert checked.findings == [], checked.findings
    assert checked.result.code == 0, checked.result.describe()
    assert checked.stdout == program.run(path, simulate=DEVICES).ok().stdout
