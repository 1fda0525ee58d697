"""On a real GPU the races between streams, copies and the host are found by what the program calls: every time."""

import pytest
from card_races import RIGHT, WRONG, each_is_found_once
from corpus import fixed
from realcheck import check_real


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_races_are_found(program, path):
    real = check_real(program, path)
    each_is_found_once(real.findings, path)


@pytest.mark.parametrize("path", [*map(fixed, WRONG), *RIGHT], ids=lambda path: path.stem)
def test_right_programs_are_silent(program, path):
    real = check_real(program, path)
    assert real.findings == [], real.result.describe()
