"""Runs `locus check --real` on a program, and tells what is the same in two reports."""

import json
import tempfile
from pathlib import Path

from checker import DEADLINE, LOCUS, Checked


def check_real(runner, path) -> Checked:
    """Checks a program on the real devices, in a forked process."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        arguments = ["check", "--real", "--format", "json", "-o", str(report), str(path)]
        result = runner.run(LOCUS, *arguments, deadline=DEADLINE)
        text = report.read_text() if report.exists() else ""
    return Checked(result, json.loads(text) if text else None)


def essence(findings) -> list[tuple]:
    """What two checks of one program must agree on: code, line to edit, tensor, devices, first use."""
    return sorted(
        (
            finding["code"],
            Path(finding["cause"]["file"]).name,
            finding["cause"]["line"],
            finding["culprit"]["name"],
            finding["culprit"]["device"],
            finding["culprit"]["expected_device"],
            finding["uses"][0]["line"] if finding["uses"] else 0,
        )
        for finding in findings
    )
