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
        figures.record(
            record_property,
            f"dry {database}{which}",
            f"{samples:,} samples",
            f"{equal:,} equal",
            f"{result.get('listed', 0):,} listed",
            f"{len(failures)} failed",
            keep=False,
        )
        assert not failures, f"{database}: " + "\n".join(" ".join(map(str, failure)) for failure in failures[:30])


def test_dry_results_have_the_geometry_of_those_with_values(record_property):
    judge_dry(run("--dry", "--part", "0/8"), record_property, ", some of the first of each")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 8))
def test_dry_results_have_the_geometry_of_all_with_values(record_property, part):
    judge_dry(run("--dry", "--part", f"{part}/8", timeout=3600), record_property, f", the first of each, part {part}")


@pytest.mark.slow
def test_all_samples(record_property):
    kept = ROOT / "build" / f"databases-{torch.__version__}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    results = run("--all", "--progress", str(kept), timeout=3 * 3600)
    judge(results, record_property)
    seen = {reason for result in results.values() for reason in result["reasons"]}
    unseen = {entry.reason for entry in differences.DIFFERENCES} - seen
    assert not unseen, f"no longer different; take them out of differences.py: {unseen}"
