"""`locus fix` fixes the mistakes of wrong programs and of mutants; the fixed program prints what its twin prints."""

import pytest
from fix_score import BAR, fix_mutants, fix_wrong, share, summary

SAMPLE = ["labels_left_behind", "positional_encoding", "experts_in_nested_dict", "cuda_in_worker"]


def test_a_sample_of_the_wrong_programs(program):
    outcomes = list(fix_wrong(program, SAMPLE))
    assert share(outcomes) == 1.0, summary("wrong programs", outcomes)


def test_a_sample_of_the_mutants(program, tmp_path):
    outcomes = list(fix_mutants(program, str(tmp_path), every=71, start=7))
    assert len(outcomes) >= 4 and share(outcomes) >= BAR, summary("mutants", outcomes)


@pytest.mark.slow
def test_all_wrong_programs(program):
    outcomes = list(fix_wrong(program))
    assert share(outcomes) >= BAR, summary("wrong programs", outcomes)


@pytest.mark.slow
def test_all_mutants(program, tmp_path):
    outcomes = list(fix_mutants(program, str(tmp_path)))
    print(summary("mutants", outcomes))
    assert share(outcomes) >= BAR, summary("mutants", outcomes)
