"""On a real GPU the check finds what it finds on simulated ones, and changes nothing."""

import pytest
from checker import check
from corpus import fixed_programs, needs_two_devices, programs
from known_differences import KNOWN_DIFFERENCES
from realcheck import check_real, essence

WRONG = [path for path in programs("wrong") if not needs_two_devices(path)]
CLEAN = [path for path in fixed_programs() + programs("correct") if not needs_two_devices(path)]


def marked(paths):
    for path in paths:
        reason = KNOWN_DIFFERENCES.get(path.stem)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        yield pytest.param(path, id=f"{path.parent.name}-{path.stem}", marks=marks)


@pytest.mark.parametrize("path", marked(WRONG))
def test_same_findings(program, path):
    real, simulated = check_real(program, path), check(program, path, devices=1)
    assert essence(real.findings) == essence(simulated.findings), real.result.describe()
    assert real.result.code == simulated.result.code, real.result.describe()


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_silent_on_correct_programs(program, path):
    real = check_real(program, path)
    assert real.errors == [], real.result.describe()
    plain = program.run(path)
    assert (real.result.code, real.stdout) == (plain.code, plain.stdout), real.result.describe()
