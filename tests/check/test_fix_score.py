"""`locus fix` mends the mistakes of buggy programs and of mutants; the mended program prints what its twin prints."""

import pytest
from fix_score import BAR, fix_buggy, fix_mutants, share, summary

SAMPLE = ["labels_left_behind", "positional_encoding", "experts_in_nested_dict", "cuda_in_worker"]


def test_a_sample_of_the_buggy_programs(program):
    mends = list(fix_buggy(program, SAMPLE))
    assert share(mends) == 1.0, summary("buggy programs", mends)


def test_a_sample_of_the_mutants(program, tmp_path):
    mends = list(fix_mutants(program, str(tmp_path), every=71, start=7))
    assert len(mends) >= 4 and share(mends) >= BAR, summary("mutants", mends)


@pytest.mark.slow
def test_all_buggy_programs(program):
    mends = list(fix_buggy(program))
    assert share(mends) >= BAR, summary("buggy programs", mends)


@pytest.mark.slow
def test_all_mutants(program, tmp_path):
    mends = list(fix_mutants(program, str(tmp_path)))
    print(summary("mutants", mends))
    assert share(mends) >= BAR, summary("mutants", mends)
