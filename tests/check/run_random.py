"""Runs random programs, many in one process: each on the CPU, on simulated devices, and checked. Prints what did not
agree, and the counts. Arguments: the first seed, how many."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path

import torch
from corpus import DEVICE_ERROR
from locus.process import runner
from locus.process.session import Session
from random_sequences import write

import locus

GENERATOR = "LOC016"
RAISED = "found, and raised all the same: there is no rule to go on by"
NOT_A_CARD = "CUDAGuardImpl initialized with non-CUDA DeviceType"


def main(first: int, count: int) -> dict:
    locus.simulate(2, rng="cpu")
    session = Session("random", [])
    session.start()
    counts = dict(programs=0, refused=0, fine=0, invalid=0, raised=0)
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            what, problem = one(session, Path(folder), seed)
            counts["programs"] += 1
            counts[what] += 1
            if problem == RAISED:
                counts["raised"] += 1
            elif problem:
                problems.append(f"seed {seed}: {problem}")
    return {**counts, "problems": problems}


def one(session: Session, folder: Path, seed: int) -> tuple[str, str]:
    """What became of a program, and what is wrong with that."""
    text, on_cpu, exact = write(seed)
    path = folder / f"random_{seed}.py"  # a name of its own: sources are kept by name
    session.set_policy("raise")
    path.write_text(on_cpu)
    words, expected = run(path)
    if words:
        return "invalid", ""
    path.write_text(text)
    words, values = run(path)
    refused = bool(DEVICE_ERROR.search(words) or NOT_A_CARD in words)
    if words and not refused:
        return "invalid", f"raised something else: {words[-400:]}\n{text}"
    session.begin_part()
    session.set_policy("collect")
    checked_words, checked = run(path)
    session.set_policy("raise")
    report = session.so_far() if session.finding_count() else {"findings": []}
    session.bridge.clear_findings()
    path.unlink()
    found = [finding for finding in report["findings"] if finding["severity"] == "error"]
    name = "refused" if refused else "fine"
    if bool(found) != refused:
        return name, f"{name}, but {len(found)} findings: {words[-300:]}{[f['code'] for f in found]}\n{text}"
    if refused and DEVICE_ERROR.search(checked_words):
        return name, RAISED
    if checked_words:
        return name, f"checked, it raised: {checked_words[-600:]}\n{text}"
    if any(finding["code"] == GENERATOR for finding in found):
        return name, ""  # the device's own generator draws instead
    for kind, these in (("", values), ("checked ", checked)):
        if kind or not refused:
            difference = compare(these, expected, exact)
            if difference:
                return name, f"{kind}values differ from the CPU's: {difference}\n{text}"
    return name, ""


def run(path: Path) -> tuple[str, list]:
    """What a program raised, in any thread, and the values it left."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        runner.run(runner.Target("script", str(path), []))
    raised = re.findall(r"(?m)^\w[\w.]*(?:Error|Exception)\b.*", said.getvalue())
    return "\n".join(raised), flat(sys.modules["__main__"].__dict__.get("results", []))


def flat(value) -> list:
    if isinstance(value, torch.Tensor):
        return [value.detach().cpu().clone()]
    if isinstance(value, (list, tuple)):
        return [each for part in value for each in flat(part)]
    return [value]


def compare(these: list, expected: list, exact: bool) -> str:
    if len(these) != len(expected):
        return f"{len(these)} values, not {len(expected)}"
    bounds = dict(rtol=0, atol=0) if exact else dict(rtol=0.05, atol=0.05)
    for number, (have, want) in enumerate(zip(these, expected)):
        try:
            torch.testing.assert_close(have, want, equal_nan=True, check_stride=False, **bounds)
        except AssertionError as error:
            return f"number {number}: {have} and {want}: {str(error).splitlines()[0]}"
    return ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    for arguments in [sys.argv[1:3]]:
        print(json.dumps(main(*map(int, arguments))))
