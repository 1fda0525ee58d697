"""What explaining a finding costs must not grow with the file that it is in, nor with the findings before it.

Counted in calls, not in seconds: the same on every machine.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest
from checker import check_source
from long_file import KINDS, padding
from long_file import program as long_program

# Counts the calls that each explanation makes. Notes for the case of a kill are written by the clock: not counted here.
COUNTING = """
import atexit, cProfile, json
import locus.watch.reporter

locus.watch.reporter.at_change = None
_report, costs = locus.watch.reporter._report, []

def counted(*given):
    profile = cProfile.Profile()
    try:
        return profile.runcall(_report, *given)
    finally:
        costs.append(sum(entry.callcount for entry in profile.getstats()))

locus.watch.reporter._report = counted
atexit.register(lambda: print(json.dumps(costs)))
"""


def costs_of(program, text):
    """The calls that the explanation of each finding took, in the order of the program."""
    checked = check_source(program, text)
    costs = json.loads(checked.stdout.splitlines()[-1])
    assert len(costs) == len(checked.findings), checked.result.describe()
    return costs


def typical(costs):
    """Of one finding of each kind, the last ones: what is done once a file is done by then."""
    return sum(costs[-len(KINDS) :]) / len(KINDS)


def test_it_does_not_grow_with_the_file(program):
    count = 2 * len(KINDS)
    short = costs_of(program, long_program(count, COUNTING))
    long = costs_of(program, long_program(count, COUNTING + padding(150)))
    assert typical(long) < 1.15 * typical(short), (typical(short), typical(long))


def test_it_does_not_grow_with_the_findings(program):
    few = costs_of(program, long_program(3 * len(KINDS), COUNTING))
    many = costs_of(program, long_program(9 * len(KINDS), COUNTING))
    assert typical(many) < 1.3 * typical(few), (typical(few), typical(many))


@pytest.mark.slow
def test_a_thousand_findings_in_one_file(tmp_path):
    """Thirty seconds of a processor at most; ten times that here, so that a slow machine does not matter."""
    path = tmp_path / "long.py"
    path.write_text(long_program(1000, padding(100)))
    assert path.stat().st_size > 200_000
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "locus", "check", "--json", str(tmp_path / "report.json"), str(path)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False, timeout=3000)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["findings"]) == 1000
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{spent:.1f} CPU-s")
    assert spent < 300
