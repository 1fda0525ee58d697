"""In a check, whatever a real GPU refuses is a finding, and nothing else is: both tables of its verdicts, and every
operator of PyTorch's database with one tensor elsewhere. The calls go on with results of the right kind.
"""

import json
import pathlib
import subprocess
import sys

import differences
import figures
import pytest

HERE = pathlib.Path(__file__).resolve().parent
TABLES = [str(HERE.parent / "data" / f"placement_{name}h200_torch2.11.json.gz") for name in ("", "more_")]
PARTS = 4


def run(*arguments):
    """What the process that runs the cases says in the end."""
    command = [sys.executable, str(HERE / "checked.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(title, result, record_property):
    figures.record(
        record_property,
        f"An H200's verdicts in a check, {title}",
        f"{result['cases']:,} cases",
        f"{result['refused'] - len(result['missed']):,} of {result['refused']:,} refusals found",
        f"{len(result['alarms'])} false alarms in {result['legal']:,} legal calls",
        f"{result.get('results compared', 0):,} results compared",
    )
    for what in ("missed", "alarms", "garbage"):
        listed = differences.VERDICTS + differences.WORDS * (what == "missed")  # refused by name, or for another reason
        cases = [case for case in result[what] if not any(entry.is_of(case) for entry in listed)]
        assert not cases, what + "\n" + "\n".join(map(str, cases[:40]))


def test_the_first_of_each_operator(record_property):
    result = run("--first", *TABLES)
    assert result["refused"] >= 600 and result["legal"] >= 250, "the samples are no longer those of this PyTorch"
    assert result["results compared"] >= 400
    judge("the first of each operator", result, record_property)


@pytest.mark.slow
def test_plain_calls(record_property):
    result = run(TABLES[0])
    assert result["refused"] >= 3800 and result["legal"] >= 1000
    judge("plain calls", result, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_other_calls(record_property, part):
    result = run("--part", f"{part}/{PARTS}", TABLES[1])
    assert result["refused"] >= 10_000 / PARTS / 2
    judge(f"other calls, part {part + 1} of {PARTS}", result, record_property)


@pytest.mark.slow
def test_further_samples_of_every_operator(record_property):
    """Here the verdict is the simulated device's own, without a check."""
    result = run("--more", TABLES[0])
    assert result["refused"] >= 1000
    judge("further samples", result, record_property)
