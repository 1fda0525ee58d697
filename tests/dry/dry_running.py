"""How tests of dry runs start them."""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

TESTS = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = TESTS / "programs"
DEADLINE = 600


def locus(tmp_path, command, *arguments, source=None, status=None):
    """Runs a command of Locus; (stdout, stderr)."""
    if source is not None:
        (tmp_path / "program.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "locus", command, *arguments, *(["program.py"] if source is not None else [])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=DEADLINE,
        check=False,
    )
    if status is not None:
        assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def report(tmp_path, *options, source=None, path=None):
    words = [str(path)] if path is not None else []
    locus(tmp_path, "check", *options, "--format", "json", "-o", "report.json", *words, source=source)
    return json.loads((tmp_path / "report.json").read_text())


def forked(program, command, *options, path):
    """Runs a command of Locus in a process that is forked from one which has imported PyTorch."""
    return program.run(TESTS / "check" / "run_check.py", command, *options, path, deadline=DEADLINE)


def forked_report(program, path, *options):
    """What a check in such a process finds."""
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder) / "report.json"
        result = forked(program, "check", *options, "--format", "json", "-o", str(kept), path=path)
        assert kept.exists(), result.describe()
        return json.loads(kept.read_text())


def keys(found):
    return sorted(
        (f["code"], f["cause"]["line"], f["use"]["line"] if "use" in f else 0, f["culprit"]["name"])
        for f in found["findings"]
    )
