"""Random tensor programs: the checker refuses exactly what PyTorch refuses, and goes on with the CPU's values."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import random_programs
from checker import check, is_available
from corpus import is_device_error

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]
RUN_RANDOM = Path(__file__).parent / "run_random.py"
FEW, ALL, AT_ONCE = 80, 10_000, 500


@pytest.mark.parametrize("seed", SEEDS)
def test_verdicts_agree(program, tmp_path, seed):
    lines = random_programs.statements(seed, 60)
    listing = tmp_path / "lines.txt"
    listing.write_text("\n".join(lines) + "\n")
    tried = program.run(random_programs.__file__, listing, simulate=2).ok()
    verdicts = tried.stdout.splitlines()
    assert len(verdicts) == len(lines), tried.describe()
    refused = [verdict != "fine" and is_device_error(verdict) for verdict in verdicts]
    kept = [(line, no) for line, no, verdict in zip(lines, refused, verdicts) if no or verdict == "fine"]
    assert len(kept) > 40

    script = tmp_path / "random_program.py"
    header = random_programs.HEADER.splitlines()
    script.write_text("\n".join([*header, *(line for line, _ in kept)]) + "\n")
    first = len(header) + 1
    expected = {first + i: line for i, (line, no) in enumerate(kept) if no}
    checked = check(program, script)
    found = {use["line"] for finding in checked.errors for use in finding["uses"]}
    missed = [line for number, line in expected.items() if number not in found]
    wrong = [kept[number - first][0] for number in sorted(found - set(expected))]
    assert not missed and not wrong, f"not found: {missed}\nwrongly found: {wrong}\n{checked.result.describe()[:2000]}"


def judge(outputs, record_property):
    """The counts of all outputs; each says in its last line how many programs there were and which were odd."""
    results = [json.loads(output.strip().splitlines()[-1]) for output in outputs]
    problems = [problem for result in results for problem in result["problems"]]
    assert not problems, f"{len(problems)} programs; the first:\n" + "\n".join(problems[:3])
    counts = {name: sum(r[name] for r in results) for name in ("programs", "refused", "fine", "invalid", "raised")}
    assert counts["refused"] > 0.15 * counts["programs"] and counts["fine"] > 0.4 * counts["programs"], counts
    assert counts["raised"] <= 0.02 * counts["refused"] + 1, counts
    figures = [
        f"{counts['programs']:,}",
        f"{counts['refused']:,} refused and found",
        f"{counts['fine']:,} fine and clean",
        f"{counts['invalid']:,} that the CPU refuses too",
        f"{counts['raised']:,} found and not repaired",
    ]
    record_property("conformance", ["random programs", *figures])


def test_run_check_and_cpu_agree(program, record_property):
    judge([program.run(RUN_RANDOM, 0, FEW, deadline=300).ok().stdout], record_property)


@pytest.mark.slow
def test_run_check_and_cpu_agree_on_many(record_property):
    """Some ten minutes on two cores."""

    def run(first):
        arguments = [sys.executable, str(RUN_RANDOM), str(first), str(AT_ONCE)]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=1800, check=True).stdout

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        judge(list(pool.map(run, range(0, ALL, AT_ONCE))), record_property)
