"""How tests of dry runs start them."""

import json
import pathlib
import subprocess
import sys
import textwrap

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
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


def keys(found):
    return sorted(
        (f["code"], f["cause"]["line"], f["use"]["line"] if "use" in f else 0, f["culprit"]["name"])
        for f in found["findings"]
    )
