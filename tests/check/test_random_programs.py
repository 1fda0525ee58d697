"""Random tensor programs: the checker refuses exactly the lines that PyTorch refuses."""

import pytest
import random_programs
from checker import check, is_available
from corpus import is_device_error

pytestmark = pytest.mark.skipif(not is_available(), reason="this Locus has no `check`")

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]


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
