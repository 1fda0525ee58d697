"""Every program of tests/programs/simulate, with and without simulated devices.

A program's header says how the two runs compare: exact, close, or none (with the reason); a program that can't be
compared checks itself and prints what it found, and "False" among that is a failure. What Locus may say on stderr
is in the header too (says); anything else there is a failure.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs" / "simulate"
DEADLINE = 120.0
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Header(NamedTuple):
    compare: str
    devices: int
    unsupported: str | None
    says: str | None


def read_header(path):
    fields = dict(re.findall(r"^# (compare|devices|unsupported|says): (.+)$", path.read_text(), re.MULTILINE))
    return Header(fields["compare"], int(fields["devices"]), fields.get("unsupported"), fields.get("says"))


def all_programs():
    for path in sorted(PROGRAMS.glob("*.py")):
        reason = read_header(path).unsupported
        # strict: the day it works, the header has to go.
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        yield pytest.param(path, id=path.stem, marks=marks)


def assert_close(actual, expected):
    """The same text, and numbers equal to 1e-4 or to the last digit that is shown."""
    assert NUMBER.sub("#", actual) == NUMBER.sub("#", expected)
    for line_actual, line_expected in zip(actual.splitlines(), expected.splitlines()):
        for a, e in zip(NUMBER.findall(line_actual), NUMBER.findall(line_expected)):
            digits = len(e.partition(".")[2]) if re.fullmatch(r"[-+]?\d*\.\d+", e) else None
            last_digit = 1.01 * 10.0**-digits if digits else 0.0
            assert abs(float(a) - float(e)) <= 1e-4 * abs(float(e)) + last_digit, (
                f"{line_actual!r} is not close to {line_expected!r}"
            )


def run(program, path, **options):
    return program.run(path, deadline=DEADLINE, teardown=True, **options)


@pytest.mark.parametrize("path", list(all_programs()))
def test_program(program, path):
    header = read_header(path)
    simulated = run(program, path, simulate=header.devices).ok()
    said = [line for line in simulated.stderr.splitlines() if line.startswith("locus: ")]
    assert said == ([header.says] if header.says else [])
    assert simulated.stdout and "nothing to do" not in simulated.stdout
    if header.compare.startswith("none"):
        assert "False" not in simulated.stdout, simulated.stdout
        return
    plain = run(program, path).ok()
    if header.compare == "exact":
        assert simulated.stdout == plain.stdout
    else:
        assert_close(simulated.stdout, plain.stdout)


CHECK = Path(__file__).parents[1] / "check" / "run_check.py"
CHECKED_EVERY_DAY = {"dataloader", "gpt"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in CHECKED_EVERY_DAY else pytest.mark.slow)
        for path in sorted(PROGRAMS.glob("*.py"))
        if not read_header(path).unsupported
    ],
)
def test_program_is_the_same_when_it_is_checked(program, path, tmp_path):
    devices = read_header(path).devices
    report = tmp_path / "report.json"
    words = ["check", "-q", "--devices", str(devices), "--json", str(report), str(path)]
    checked = program.run(CHECK, *words, deadline=DEADLINE, teardown=True).ok()
    assert json.loads(report.read_text())["findings"] == [], checked.describe()
    assert_close(checked.stdout, run(program, path, simulate=devices).ok().stdout)


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda p: p.stem)
def test_program_without_devices(program, path):
    """Locus loaded but not asked for anything: the program is as it was. It must run on a CPU at all, too."""
    assert "False" not in run(program, path).ok().stdout


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda p: p.stem)
def test_header(path):
    compare, devices, *_ = read_header(path)
    assert re.fullmatch(r"exact|close|none \(.+\)", compare) and 1 <= devices <= 8


@pytest.mark.parametrize("name", ["mlp", "gpt", "cnn", "model_parallel"])
def test_runs_repeat(program, name):
    """Twice the same: nothing depends on addresses or on time."""
    path = PROGRAMS / f"{name}.py"
    first, second = (run(program, path, simulate=2).ok() for _ in range(2))
    assert first.stdout == second.stdout


def test_rng_cpu_makes_device_draws_comparable(program):
    """rng="cpu": a program that draws on its device prints what it prints on a CPU."""
    text = """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 1)).to(device)
x = torch.randn(64, 8, device=device)
loss = model(x).square().mean()
loss.backward()
print(torch.randint(100, (4,), device=device).tolist(), torch.rand(2).tolist(), round(loss.item(), 6))
"""
    plain = program.run_source(text).ok()
    assert program.run_source(text, simulate={"devices": 1, "rng": "cpu"}).ok().stdout == plain.stdout
    assert program.run_source(text, simulate={"devices": 1}).ok().stdout != plain.stdout


def test_two_programs_that_differ_are_told_apart():
    assert_close("loss 0.50001 n 3", "loss 0.50002 n 3")
    for wrong in ("loss 0.502 n 3", "loss 0.5 n 4", "lost 0.5 n 3", "loss 0.5 n 3 more"):
        with pytest.raises(AssertionError):
            assert_close(wrong, "loss 0.500 n 3")
