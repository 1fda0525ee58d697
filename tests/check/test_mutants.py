"""Mutants of correct programs: found, and blamed on the line that was broken."""

import pytest
from checker import is_available
from score import score_mutants, summary

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")


def assert_good(outcomes, found, right):
    total = len(outcomes)
    assert total
    report = summary("mutants", outcomes)
    assert sum(o.verdict.found for o in outcomes) >= found * total, report
    assert sum(o.right for o in outcomes) >= right * total, report


def test_a_sample(program, tmp_path):
    assert_good(list(score_mutants(program, str(tmp_path), every=31)), found=1.0, right=0.85)


@pytest.mark.slow
def test_all(program, tmp_path):
    assert_good(list(score_mutants(program, str(tmp_path))), found=0.98, right=0.9)
