"""Mutants of correct programs: found, and blamed on the line that was broken."""

import pytest
from checker import is_available
from score import score_mutants, summary

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")


# Where the check stands, so that it does not fall behind; where it should be is in docs/design.md, "Limits".
def assert_good(outcomes, found, right):
    total = len(outcomes)
    assert total
    report = summary("mutants", outcomes)
    assert sum(o.verdict.found for o in outcomes) >= found * total, report
    assert sum(o.right for o in outcomes) >= right * total, report


def test_a_sample(program, tmp_path):
    assert_good(list(score_mutants(program, str(tmp_path), every=31)), found=0.95, right=0.8)


@pytest.mark.slow
def test_all(program, tmp_path):
    assert_good(list(score_mutants(program, str(tmp_path))), found=0.97, right=0.7)
