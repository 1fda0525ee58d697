"""Edits put together: merging, diffs, line ends; and which of them are kept when some fail."""

import os

import pytest


def text(raw, path="/p.py"):
    from locus.fixing.patches import Text

    return Text(path, raw)


def edit(line, old, new, path="/p.py"):
    from locus.fixing.patches import Edit

    return Edit(path, line, old, new)


def merged(raw, *edits):
    from locus.fixing.patches import merge

    result = merge(list(edits), {"/p.py": text(raw)})
    return result.texts.get("/p.py", raw), len(result.made), len(result.postponed)


def test_edits_of_one_line():
    old = "y = a + b + c"
    result = merged(b"y = a + b + c\n", edit(1, old, "y = a + b.to(d) + c"), edit(1, old, "y = a + b + c.to(d)"))
    assert result == (b"y = a + b.to(d) + c.to(d)\n", 2, 0)
    same = edit(1, old, "y = a.to(d) + b + c")
    assert merged(b"y = a + b + c\n", same, edit(1, old, same.new)) == (b"y = a.to(d) + b + c\n", 2, 0)
    clash = merged(b"y = a + b + c\n", edit(1, old, "y = a + b.to(d) + c"), edit(1, old, "y = a + b.to(e) + c"))
    assert clash == (b"y = a + b.to(d) + c\n", 1, 1)


def test_lines_of_their_own():
    raw = b"a = 1\r\nb = 2"
    assert merged(raw, edit(2, "", "c = 3"), edit(2, "", "d = 4"))[0] == b"a = 1\r\nb = 2\r\nc = 3\r\nd = 4"
    assert merged(raw, edit(1, "", "c = 3"), edit(1, "a = 1", "a = 10"))[0] == b"a = 10\r\nc = 3\r\nb = 2"
    assert merged(raw, edit(1, "a = 1\nb = 2", "a = 1\nb = 3"))[0] == b"a = 1\r\nb = 3"


def test_edits_for_another_text_are_not_made():
    assert merged(b"a = 1\n", edit(1, "a = 2", "a = 3")) == (b"a = 1\n", 0, 1)
    assert merged(b"a = 1\n", edit(9, "a = 1", "a = 3"))[1:] == (0, 1)
    assert merged(b"a = 1\n", edit(1, "a = 1", "a = (")) == (b"a = 1\n", 0, 1)


def test_a_diff_that_tools_can_read(tmp_path):
    import shutil
    import subprocess

    from locus.fixing import patches

    if shutil.which("git") is None:
        pytest.skip("no git")
    old, new = b"a = 1\r\nb = '\xfc'\r\nc = 3", b"a = 1\r\nb = '\xfc!'\r\nc = 4"
    cookie = b"# coding: latin-1\r\n"
    path = tmp_path / "p.py"
    path.write_bytes(cookie + old)
    diff = patches.diff({str(path): patches.Text.read(str(path))}, {str(path): cookie + new}, str(tmp_path))
    subprocess.run(["git", "apply", "-"], input=diff, cwd=tmp_path, check=True)
    assert path.read_bytes() == cookie + new


def test_lines_are_found_again():
    from locus.fixing.patches import original_line

    old, new = b"a\nb\nc\nd", b"a\nnew\nb\nC\nd"
    assert [original_line(old, new, line) for line in (1, 3, 4, 5)] == [1, 2, 3, 4]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_folder_that_can_not_be_written(tmp_path):
    from locus.errors import UsageError
    from locus.fixing import patches

    path = tmp_path / "p.py"
    path.write_text("a = 1\n")
    files = {str(path): patches.Text.read(str(path))}
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="can't be written"):
        patches.write(files, {str(path): b"a = 2\n"})
    assert path.read_text() == "a = 1\n"


class FakeProgram:
    """A program of lines `xN = 0`, each a mistake; `judge(text)` says what is found, and whether it fails;
    `prints(text, shared_rng)` is what it writes."""

    def __init__(self, tmp_path, lines, judge, prints=lambda text, shared_rng: None):
        self.path = str(tmp_path / "p.py")
        self.raw = "".join(f"x{n} = 0\n" for n in range(lines)).encode()
        (tmp_path / "p.py").write_bytes(self.raw)
        self.judge, self.prints, self.runs = judge, prints, []

    def finding(self, number, line=None, fixes=()):
        line = line or number + 1
        place = {"file": self.path, "line": line}
        use = {**place, "op": "add", "first_step": 0}
        made = [{"file": self.path, "line": line, "old": o, "new": n, "verified": False, "note": ""} for o, n in fixes]
        culprit = {"name": f"x{number}", "device": "cpu", "expression": ""}
        return {"id": f"f{number}", "code": "LOC004", "reason": "default-device", "cause": place, "culprit": culprit,
                "uses": [use], "history": [], "fixes": made, "candidates": [], "notes": [], "op": "add"}  # fmt: skip

    def report(self, findings):
        return {"findings": findings, "program": {"exit": 0, "steps": 0, "seconds": 0.1}}

    def rerun(self, texts, limit, shared_rng):
        from locus.fixing.rerun import Rerun

        text = texts.get(self.path, self.raw).decode()
        self.runs.append(text)
        findings, fails = self.judge(text)
        if fails:
            return Rerun(None, 1, "ValueError", traceback=((self.path, fails),) if fails is not True else ())
        return Rerun(self.report(findings), 0, "", printed=self.prints(text, shared_rng))

    def verify(self, findings, **limits):
        from locus.fixing import verifying

        printed = self.prints(self.raw.decode(), False)
        return verifying.verify(self.report(findings), self.rerun, printed=printed, **limits)


def left(program, text):
    return [program.finding(n, fixes=[(f"x{n} = 0", f"x{n} = 1")]) for n in range(6) if f"x{n} = 0\n" in text]


def test_all_edits_in_one_run(tmp_path):
    program = FakeProgram(tmp_path, 6, lambda text: (left(program, text), False))
    outcome = program.verify(left(program, program.raw.decode()))
    assert outcome.fixed and len(program.runs) == 1 and outcome.runs == 1


def test_bisects_when_an_edit_breaks_the_program(tmp_path):
    program = FakeProgram(tmp_path, 6, lambda text: (left(program, text), "x4 = 1" in text))
    outcome = program.verify(left(program, program.raw.decode()))
    assert [a.verified for a in outcome.attempts] == [True] * 4 + [False, True]
    assert "x4 = 0" in outcome.texts[program.path].decode() and "did not come to its end" in outcome.attempts[4].why
    found = outcome.findings()
    assert [finding["fixes"][0]["verified"] for finding in found] == [True] * 4 + [False, True]


def test_another_edit_is_tried_when_the_first_does_not_fix(tmp_path):
    def judge(text):
        return [program.finding(0)] if "x0 = 2" not in text else [], False

    program = FakeProgram(tmp_path, 2, judge)
    other = {"file": program.path, "line": 1, "old": "x0 = 0", "new": "x0 = 2", "note": ""}
    finding = program.finding(0, fixes=[("x0 = 0", "x0 = 1")])
    finding["candidates"] = [{"edit": "move_at_use", "fix": other}]
    outcome = program.verify([finding])
    assert outcome.fixed and outcome.texts[program.path] == b"x0 = 2\nx1 = 0\n"
    assert outcome.findings()[0]["fixes"][0]["new"] == "x0 = 2"


def test_what_shows_when_the_rest_is_fixed(tmp_path):
    def judge(text):
        if "x0 = 0" in text:
            return [program.finding(0)], False
        line = text.split("\n").index("x1 = 0") + 1 if "x1 = 0" in text else 0
        return ([program.finding(1, line, [("x1 = 0", "x1 = 1")])] if line else []), False

    program = FakeProgram(tmp_path, 3, judge)
    outcome = program.verify([program.finding(0, fixes=[("x0 = 0", "a = 1\nx0 = a")])])
    assert outcome.fixed and outcome.texts[program.path] == b"a = 1\nx0 = a\nx1 = 1\nx2 = 0\n"
    found = outcome.findings()
    assert [f["id"] for f in found] == ["f0", "f1"] and found[1]["cause"]["line"] == 2


def test_no_more_runs_than_allowed(tmp_path):
    program = FakeProgram(tmp_path, 6, lambda text: (left(program, text), "x4 = 1" in text))
    for most in (1, 2, 3):
        program.runs.clear()
        outcome = program.verify(left(program, program.raw.decode()), max_runs=most)
        assert len(program.runs) == outcome.runs == most and not outcome.fixed
    assert "all 3 runs are used up (--max-runs)" in outcome.attempts[0].why


def test_no_run_without_time(tmp_path):
    program = FakeProgram(tmp_path, 2, lambda text: (left(program, text), False))
    outcome = program.verify(left(program, program.raw.decode()), has_time=lambda: False)
    assert not program.runs and "the time for further runs is used up" in outcome.attempts[0].why
