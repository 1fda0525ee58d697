"""PyTorch's own databases of samples give on a simulated device what they give on the CPU; see databases.py.

Every day the first three samples of each entry; with `-m slow` all of them, in every dtype.
"""

import json
import pathlib
import subprocess
import sys

import differences
import figures
import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def run(*arguments, timeout=600):
    """What databases.py says, {database: {…}}."""
    done = subprocess.run(
        [sys.executable, str(HERE / "databases.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(results, record_property, which=""):
    for database, result in results.items():
        failures, samples = result["failures"], result["samples"]
        equal = sum(result.get(fate, 0) for fate in ("equal", "equal by parts", "refused by both"))
        figures.record(
            record_property,
            f"PyTorch's {database}{which}",
            f"{samples:,} samples",
            f"{equal:,} equal",
            f"{result.get('listed', 0):,} listed",
            f"{len(failures)} failed",
            keep=not which,
        )
        assert not failures, f"{database}: " + "\n".join(" ".join(map(str, failure)) for failure in failures[:30])
        assert equal >= 0.99 * samples, f"{database}: only {equal} of {samples} samples are equal"


def test_first_samples(record_property):
    judge(run(), record_property, ", the first of each")


def judge_dry(results, record_property, which):
    for database, result in results.items():
        if not result.get("samples"):
            continue
        failures, samples = result["failures"], result["samples"]
        equal = sum(result.get(fate, 0) for fate in ("equal", "refused by both"))
        shaped_by_values = result.get("as values say", 0)
        figures.record(
            record_property,
            f"dry {database}{which}",
            f"{samples:,} samples",
            f"{equal:,} equal",
            f"{shaped_by_values:,} as large as values say",
            f"{result.get('listed', 0):,} listed",
            f"{len(failures)} failed",
            keep=False,
        )
        assert not failures, f"{database}: " + "\n".join(" ".join(map(str, failure)) for failure in failures[:30])
    assert any(result.get("samples") for result in results.values()), "nothing was compared"
    return results


def assert_nearly_all_equal(results):
    judged = [result for result in results.values() if result.get("samples")]
    equal = sum(result.get(fate, 0) for result in judged for fate in ("equal", "refused by both"))
    samples = sum(result["samples"] - result.get("as values say", 0) for result in judged)
    assert equal >= 0.995 * samples, f"only {equal} of {samples} have the geometry of those with values"


def test_dry_results_have_the_geometry_of_those_with_values(record_property):
    judge_dry(run("--dry", "--part", "0/8"), record_property, ", some of the first of each")


@pytest.mark.slow
def test_dry_results_have_the_geometry_of_all_with_values(record_property):
    """All samples, without a single known value."""
    kept = ROOT / "build" / f"databases-dry-{torch.__version__}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    results = judge_dry(run("--all", "--dry", "--progress", str(kept), timeout=3 * 3600), record_property, "")
    assert_nearly_all_equal(results)


@pytest.mark.slow
def test_all_samples(record_property):
    kept = ROOT / "build" / f"databases-{torch.__version__}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    results = run("--all", "--progress", str(kept), timeout=3 * 3600)
    judge(results, record_property)
    seen = {reason for result in results.values() for reason in result["reasons"]}
    unseen = {entry.reason for entry in differences.DIFFERENCES} - seen
    assert not unseen, f"no longer different; take them out of differences.py: {unseen}"
