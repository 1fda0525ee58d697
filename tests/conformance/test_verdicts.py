"""The simulated device refuses and accepts what a real GPU refuses and accepts, in the same words."""

import json
import pathlib
import subprocess
import sys

import differences
import figures
import pytest

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
FIRST, SECOND = "placement_h200_torch2.11.json.gz", "placement_more_h200_torch2.11.json.gz"


def run(table, *arguments):
    command = [sys.executable, str(HERE / "verdicts.py"), str(DATA / table), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(title, result, record_property, keep=True):
    figures.record(
        record_property,
        f"An H200's verdicts, {title}",
        f"{result['matched']:,} matched",
        f"{result['equal']:,} equal",
        f"{len(result['different'])} different",
        f"{result['same words']:,} of {result['refused by both']:,} errors in the same words",
        keep=keep,
    )
    words = result["words"] if differences.SAME_WORDS else []
    for listed, found in ((differences.VERDICTS, result["different"]), (differences.WORDS, words)):
        unlisted = [case for case in found if not any(entry.is_of(case) for entry in listed)]
        assert not unlisted, "\n".join(map(str, unlisted[:40]))


def assert_still_different(result, plain):
    """The list has no entry that is out of date; the first table has the plain calls, the second the others."""
    if not differences.SAME_WORDS:
        return
    for listed, found in ((differences.VERDICTS, result["different"]), (differences.WORDS, result["words"])):
        of_table = [entry for entry in listed if (entry.kind == "made") == plain and not entry.drawn]
        unseen = [entry for entry in of_table if not any(entry.is_of(case) for case in found)]
        assert not unseen, f"no longer different; take them out of differences.py: {unseen}"


def test_first_table(record_property):
    result = run(FIRST)
    assert result["matched"] >= 4800, "the table's samples are no longer those of the installed PyTorch"
    judge("plain calls", result, record_property)
    assert_still_different(result, plain=True)


def test_second_table_in_part(record_property):
    judge("other calls (one entry in ten)", run(SECOND, "10"), record_property, keep=False)


@pytest.mark.slow
def test_second_table(record_property):
    result = run(SECOND)
    assert result["matched"] >= 17_000, "the table's samples are no longer those of the installed PyTorch"
    judge("other calls", result, record_property)
    assert_still_different(result, plain=False)


def judge_dry(title, result, record_property):
    """The verdicts are those of the card; where nothing is known, some checks of PyTorch's come in another order."""
    figures.record(
        record_property,
        f"An H200's verdicts in a dry run, {title}",
        f"{result['matched']:,} matched",
        f"{result['equal']:,} equal",
        f"{len(result['different'])} different",
        f"{result['same words']:,} of {result['refused by both']:,} errors in the same words",
        keep=False,
    )
    listed = differences.VERDICTS + differences.DRY_VERDICTS
    unlisted = [case for case in result["different"] if not any(entry.is_of(case) for entry in listed)]
    assert not unlisted, "\n".join(map(str, unlisted[:40]))
    if differences.SAME_WORDS:
        other = [case for case in result["words"] if not any(entry.is_of(case) for entry in differences.WORDS)]
        assert len(other) <= 0.02 * result["refused by both"], "\n".join(map(str, other[:40]))


def test_first_table_dry(record_property):
    result = run(FIRST, "1", "dry")
    # PyTorch 2.6 draws fewer of the table's samples.
    assert result["matched"] >= (4800 if differences.TORCH >= (2, 7) else 4750)
    judge_dry("plain calls", result, record_property)


@pytest.mark.slow
def test_second_table_dry(record_property):
    result = run(SECOND, "1", "dry")
    assert result["matched"] >= 17_000
    judge_dry("other calls", result, record_property)
