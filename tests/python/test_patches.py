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


def offering(program, number, *values):
    """A finding whose edits set xN to each of the values, best first."""
    finding = program.finding(number, fixes=[(f"x{number} = 0", f"x{number} = {values[0]}")])
    fix = finding["fixes"][0]
    finding["candidates"] = [
        {"edit": "factory_device", "fix": {**fix, "new": f"x{number} = {value}"}} for value in values
    ]
    return finding


def values_of(outcome, program):
    text = outcome.texts.get(program.path, program.raw).decode()
    return [int(line.split(" = ")[1]) for line in text.splitlines()]


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("way", ["remains", "finds", "fails", "fails there", "prints"])
def test_only_the_bad_edit_is_exchanged(tmp_path, way, bad):
    """x = 1 is wrong in one line, and right in all others."""

    def judge(text):
        is_bad = f"x{bad} = 1\n" in text
        found = left(program, text)
        if way == "remains" and is_bad:
            found.append(program.finding(bad))
        if way == "finds" and is_bad:
            found.append(program.finding(9, line=bad + 1))
            found[-1]["uses"][0]["op"] = "mul"
        return found, is_bad and {"fails": True, "fails there": bad + 1}.get(way, False)

    def prints(text, shared_rng):
        return f"start\n{way == 'prints' and f'x{bad} = 1' in text}\n"

    program = FakeProgram(tmp_path, 4, judge, prints)
    outcome = program.verify([offering(program, n, 1, 2) for n in range(4)])
    assert outcome.fixed and values_of(outcome, program) == [2 if n == bad else 1 for n in range(4)]
    assert outcome.runs <= (2 if way in ("remains", "finds", "fails there") else 8)


@pytest.mark.parametrize("way", ["fails", "prints"])
def test_two_bad_edits(tmp_path, way):
    def is_bad(text):
        return "x1 = 1" in text or "x4 = 1" in text

    program = FakeProgram(
        tmp_path, 6, lambda text: (left(program, text), way == "fails" and is_bad(text)),
        lambda text, shared_rng: str(way == "prints" and is_bad(text)),
    )  # fmt: skip
    outcome = program.verify([offering(program, n, 1, *([2] if n == 1 else [])) for n in range(6)])
    assert values_of(outcome, program) == [1, 2, 1, 1, 0, 1]
    assert [a.verified for a in outcome.attempts] == [True] * 4 + [False, True]
    words = "the program prints something else with it" if way == "prints" else "did not come to its end"
    assert words in outcome.attempts[4].why


def test_an_edit_that_another_one_spoiled_gets_another_chance(tmp_path):
    """x1 = 1 is right, but not beside x0 = 1."""

    def judge(text):
        spoiled = "x0 = 1\n" in text or "x1 = 0\n" in text
        return [program.finding(n) for n, there in ((0, "x0 = 2\n" not in text), (1, spoiled)) if there], False

    program = FakeProgram(tmp_path, 2, judge)
    outcome = program.verify([offering(program, 0, 1, 2), offering(program, 1, 1)])
    assert outcome.fixed and values_of(outcome, program) == [2, 1]


def test_a_traceback_may_name_the_wrong_edit(tmp_path):
    """It fails in the line of x0, because of x2."""
    program = FakeProgram(tmp_path, 4, lambda text: (left(program, text), 1 if "x2 = 1\n" in text else False))
    outcome = program.verify([offering(program, n, 1, 2) for n in range(4)])
    assert outcome.fixed and values_of(outcome, program) == [1, 1, 2, 1]


def test_a_draw_that_moves_is_the_same_draw(tmp_path):
    """Another number is drawn where the edit moves it to a device, unless the generators are shared."""
    program = FakeProgram(
        tmp_path, 1, lambda text: (left(program, text), False),
        lambda text, shared_rng: "7\n" if shared_rng else "3\n" if "x0 = 0" in text else "4\n",
    )  # fmt: skip
    outcome = program.verify([offering(program, 0, 1)])
    assert outcome.fixed and outcome.runs == 3


def test_lines_that_differ_by_themselves_say_nothing(tmp_path):
    program = FakeProgram(
        tmp_path, 2, lambda text: (left(program, text), False),
        lambda text, shared_rng: f"run {len(program.runs)}\nloss {'x1 = 1' in text}\n",
    )  # fmt: skip
    outcome = program.verify([offering(program, 0, 1), offering(program, 1, 1, 2)])
    assert outcome.fixed and values_of(outcome, program) == [1, 2]


def test_an_output_that_can_not_be_compared_any_more(tmp_path):
    program = FakeProgram(
        tmp_path, 1, lambda text: (left(program, text), False), lambda text, shared_rng: str("x0 = 1" in text)
    )
    outcome = program.verify([offering(program, 0, 1)], max_runs=1)
    assert not outcome.fixed
    assert outcome.attempts[0].why == "the program prints something else with it; the one run is used up (--max-runs)"


@pytest.mark.parametrize("what", ["layers that get known to their model", "a generator that can be used"])
def test_edits_that_rightly_change_what_is_printed(tmp_path, what):
    """What is printed then is right; what another edit changes is not."""

    def prints(text, shared_rng):
        return f"{'x0 = 1' in text}\n{'x1 = 1' in text}\n"

    program = FakeProgram(tmp_path, 2, lambda text: (left(program, text), False), prints)
    known = offering(program, 0, 1)
    if what.startswith("layers"):
        known["candidates"][0]["edit"] = "module_list"
    else:
        known["reason"] = "generator"
    outcome = program.verify([known, offering(program, 1, 1, 2)])
    assert outcome.fixed and values_of(outcome, program) == [1, 2]


def test_edits_that_others_make_needless_are_left_out(tmp_path):
    """x1 and x2 are made where x0 is; x2 needs its edit all the same."""

    def judge(text):
        return [f for f in findings() if f["id"] in text_to_ids(text)], False

    def text_to_ids(text):
        gone = {"f0", "f1"} if "x0 = 1\n" in text else {"f1"} if "x1 = 1\n" in text else set()
        return {"f0", "f1", "f2"} - gone - ({"f2"} if "x2 = 1\n" in text else set())

    def findings():
        all_of_them = [offering(program, n, 1) for n in range(3)]
        for finding in all_of_them[1:]:
            finding["history"] = [{"at": {"file": program.path, "line": 1}}, {"at": None}]
        return all_of_them

    program = FakeProgram(tmp_path, 3, judge)
    outcome = program.verify(findings())
    assert outcome.fixed and values_of(outcome, program) == [1, 0, 1] and outcome.runs == 3
    assert [f["notes"] for f in outcome.findings()] == [[], ["fixed by the edits of the other findings"], []]


def test_an_edit_that_changes_nothing_is_not_tried(tmp_path):
    program = FakeProgram(tmp_path, 1, lambda text: (left(program, text), False))
    outcome = program.verify([offering(program, 0, 0, 1)])
    assert outcome.fixed and outcome.runs == 1


def test_outputs_are_compared_without_what_may_differ():
    from locus.fixing.oracle import Expected

    first = "loss 0.5 on cpu\ntook 1.25 s, 310.5 it/s, time: 3.5\ntensor([1., 2.])\npeak memory: 512\n<M at 0x7f12>\n"
    other = (
        "loss 0.5 on cuda:0\ntook 3.5 s, 99.1 it/s, time: 1e-3\n"
        "tensor([1., 2.],\n       device='cuda:0', grad_fn=<ToCopyBackward0>)\n"
        "peak memory: 1024\n<M at 0x8a12>\n"
    )
    assert Expected(first).is_met(other, False)
    assert not Expected(first).is_met(other.replace("0.5", "0.6"), False)
    assert not Expected(first).is_met(other + "more\n", False) and not Expected(first).is_met(first[:20], False)
    assert Expected(first).is_met(first[:20], was_stopped=True)
    assert not Expected(first).is_met("loss 0.6 on cpu\nto", was_stopped=True)
    assert Expected(first, is_part=True).is_met(first + "more\n", False)


@pytest.mark.parametrize(
    "wanted, got, is_met",
    [
        ("on cuda:1", "on cuda:0", False),  # another card
        ("on cuda:0", "on cpu", False),  # brought to the host
        ("on cpu", "on cuda:1", True),  # fixed
        ("cuda cuda:0", "cuda:0 cuda", True),  # two words for one card
        ("cuda:0 cuda:1", "cuda:0 cuda:1", True),
    ],
)
def test_cards_in_the_output_are_told_apart(wanted, got, is_met):
    from locus.fixing.oracle import Expected

    assert Expected(wanted).is_met(got, False) is is_met


def test_what_is_printed_is_kept_on_its_way(program):
    """Whoever reads it, and the program itself, see what they would have seen."""
    text = """
import io, os, sys
from locus.process.printed import Printed
before = sys.stdout
seen = [type(before), type(before.buffer), before.encoding, before.errors, before.line_buffering, before.name,
        before.mode, before.write_through, repr(before)]
kept = Printed()
now = sys.stdout
assert now is sys.__stdout__ and now is not before
assert seen == [type(now), {True: io.FileIO}.get(isinstance(now.buffer, io.FileIO), type(now.buffer)), now.encoding,
                now.errors, now.line_buffering, now.name, now.mode, now.write_through, repr(now)], repr(now)
print("one", "\\u00fc", flush=True)
now.buffer.write(b"two\\n")
now.flush()
os.write(1, b"three\\n")
assert kept.text() == "one \\u00fc\\ntwo\\n", kept.text()
sys.stdout = io.StringIO()
assert Printed().text() is None
"""
    for environment in ({}, {"PYTHONIOENCODING": "latin-1"}):
        assert program.run_source(text, env=environment).ok().stdout == "one ü\ntwo\nthree\n"
