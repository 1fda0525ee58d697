"""Optimizers that train nothing: each marked one is found once, at the line that makes it; fixed, and where the
optimizer is meant to be as it is, nothing is found. With ranks: tests/dist."""

import pytest
from checker import DEADLINE, LOCUS, check
from corpus import fixed, programs, read_mistakes

PROGRAMS = programs("optimizers")
WRONG = [path for path in PROGRAMS if read_mistakes(path.read_text())]
RIGHT = [path for path in PROGRAMS if path not in WRONG]


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_it_is_found_where_it_is_made(program, path):
    (mistake,) = read_mistakes(path.read_text())
    checked = check(program, path, devices=1)
    assert [finding["reason"] for finding in checked.findings] == mistake.reasons, checked.result.describe()
    (finding,) = checked.findings
    assert finding["cause"]["line"] == mistake.line and f"{path.name}:{mistake.line}" in finding["why"], finding
    assert "gradient that no optimizer uses" in finding["why"], finding
    assert not checked.report["notes"], checked.report["notes"]


@pytest.mark.parametrize("path", [*(fixed(path) for path in WRONG), *RIGHT], ids=lambda path: path.stem)
def test_nothing_is_found_when_it_is_right(program, path):
    checked = check(program, path, devices=1)
    assert checked.findings == [], checked.result.describe()
    assert not checked.report["notes"], checked.report["notes"]


@pytest.mark.parametrize(
    "name, last",
    [
        ("head_replaced", "model.head = nn.Linear(8, 10).to(device)"),
        ("tied_anew", "model.head.weight = shared"),  # not behind the line that makes the parameter
        ("quantized", "quantize(net)"),
    ],
)
def test_the_optimizer_is_put_behind_what_replaces_its_parameters(program, tmp_path, name, last):
    path = next(path for path in WRONG if path.stem == name)
    target = tmp_path / path.name
    target.write_text(path.read_text())
    result = program.run(LOCUS, "fix", "--devices", "1", "--apply", str(target), cwd=tmp_path, deadline=2 * DEADLINE)
    lines = [line.strip() for line in target.read_text().splitlines()]
    made = next(number for number, line in enumerate(lines) if line.startswith(("optimizer = ", "trainer = ")))
    assert lines.index(last) == made - 1, result.describe()
    assert check(program, target, devices=1).findings == []
