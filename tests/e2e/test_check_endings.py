"""`locus check` however the program ends: the report is made once, the exit code is right, nothing found is lost.

Two runs are fresh ones in a real terminal (a pty) or with pipes; the others are forked from a process that has torch.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"
MISTAKE = "import torch\nx = torch.ones(2, device='cuda') + torch.ones(2)\nprint('on we go', flush=True)\n"
STEPS = """
import torch
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({count}):
    model(torch.ones(1, 2).cuda() + torch.ones(1, 2)).sum().backward()
    optimizer.step()
    {each}
print("the end")
"""


def check(program, text, *options, name="prog.py", **more):
    folder = Path(program.folder.name) / f"ending{time.monotonic_ns()}"
    folder.mkdir()
    (folder / name).write_text(text)
    return program.run(LOCUS, "check", *options, name, cwd=folder, deadline=60, teardown=True, **more)


@pytest.mark.parametrize(
    "ending, code, note",
    [
        ("raise SystemExit(3)", 1, "exit status 3"),
        ("import sys; sys.exit('gone')", 1, "gone"),
        ("import os; os._exit(4)", 1, "exit status 4"),
        ("raise ValueError('own fault')", 1, "ValueError: own fault"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, "SIGTERM"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130, "KeyboardInterrupt"),
        ("import os; os.fork() or os._exit(5); os.wait()", 1, ""),
        ("import os; os.fork() and os.wait()", 1, ""),
        ("import sys; sys.stderr.close()", 1, ""),
    ],
)
def test_a_mistake_and_an_ending(program, ending, code, note):
    result = check(program, MISTAKE + ending)
    assert result.code == code, result.describe()
    assert result.stdout == "on we go\n", result.describe()
    assert result.stderr.count("error[LOC004]") == 1 and result.stderr.count("1 finding (1 error)") == 1
    assert note in result.stderr, result.describe()


@pytest.mark.parametrize("number, code", [("SIGINT", 130), ("SIGTERM", -15)])
def test_a_signal_while_a_finding_is_explained(program, number, code):
    text = f"""
import os, signal, torch
from locus.blame import facts
build_case = facts.build_case
def interrupted(raw):
    print("while it is explained", flush=True)
    os.kill(os.getpid(), signal.{number})
    return build_case(raw)
facts.build_case = interrupted
{MISTAKE}
"""
    result = check(program, text)
    assert result.code == code, result.describe()
    assert result.stdout == "while it is explained\n", result.describe()
    assert result.stderr.count("error[LOC004]") == 1 and "1 finding (1 error)" in result.stderr, result.describe()


def test_a_program_has_its_own_handler(program):
    text = """
import os, signal, torch
def stop(number, frame):
    print("my own way", flush=True)
    raise SystemExit(7)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
signal.signal(signal.SIGTERM, stop)
os.kill(os.getpid(), signal.SIGTERM)
"""
    result = check(program, text)
    assert (result.code, result.stdout) == (7, "my own way\n"), result.describe()


def test_children_are_not_taken_for_the_program(program):
    text = (
        MISTAKE
        + """
import os, signal, time
child = os.fork()
if child == 0:
    time.sleep(30)
os.kill(child, signal.SIGTERM)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    os.wait()
except ChildProcessError:
    print("no other child")
"""
    )
    result = check(program, text)
    assert result.code == 1 and result.stdout.splitlines()[1:] == ["child -15", "no other child"], result.describe()
    assert result.stderr.count("error[LOC004]") == 1


def test_steps(program):
    result = check(program, STEPS.format(count=50, each="pass"), "--steps", "3")
    assert result.code == 1 and result.stdout == "" and "in 3 steps" in result.stderr, result.describe()
    result = check(program, STEPS.format(count=2, each="pass"), "--steps", "3")
    assert result.stdout == "the end\n" and "in 2 steps" in result.stderr, result.describe()


SEVERAL = """
import torch

layers = [torch.nn.Linear(4, 4).cuda() for _ in range(3)]
optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in layers]
for step in range(9):
    for layer, optimizer, every in zip(layers, optimizers, (1, {every}, 1)):
        layer(torch.ones(2, 4, device="cuda")).sum().backward()
        if step % every == 0:
            optimizer.step()
    print(step, flush=True)
"""


@pytest.mark.parametrize("every, whole", [(1, 1), (2, 2), (9, 2)])
def test_steps_of_several_optimizers(program, every, whole):
    """The program ends when each has made two steps, or one has made a third."""
    result = check(program, SEVERAL.replace("{every}", str(every)), "--steps", "2")
    assert result.stdout == "".join(f"{step}\n" for step in range(whole)), result.describe()


def test_modules_and_code(program, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "train.py").write_text(MISTAKE + "import sys; print(__name__, sys.argv[1:])\n")
    result = program.run(LOCUS, "check", "-m", "package.train", "--lr", "1", cwd=tmp_path)
    assert result.code == 1 and "package/train.py:2" in result.stderr, result.describe()
    assert result.stdout == "on we go\n__main__ ['--lr', '1']\n"
    result = program.run(LOCUS, "check", "-c", MISTAKE, cwd=tmp_path)
    assert result.code == 1 and "<string>:2" in result.stderr, result.describe()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--sideways"], ["--sideways"]),
        (["--steps", "0"], ["--steps 0"]),
        (["--format", "yaml"], ["yaml", "json"]),
        (["-o", "."], ["-o .", "folder"]),
        (["-o", "nowhere/report.txt"], ["nowhere"]),
        (["--json", "/proc/report.json"], ["/proc/report.json"]),
        (["--baseline", "missing.json"], ["missing.json", "can't be read"]),
        (["--baseline", "prog.py"], ["prog.py", "not a JSON report"]),
        (["--baseline", "list.json"], ["list.json", "not a report"]),
        (["--devices", "0"], ["--devices 0"]),
    ],
)
def test_bad_options(program, tmp_path, options, words):
    (tmp_path / "prog.py").write_text("print('ran')")
    (tmp_path / "list.json").write_text("[]")
    result = program.run(LOCUS, "check", *options, "prog.py", cwd=tmp_path)
    assert result.code == 2 and result.stdout == "" and "Traceback" not in result.stderr, result.describe()
    assert all(word in result.stderr for word in words), result.describe()


def test_a_killed_program_and_closed_pipes(tmp_path):
    """SIGKILL leaves no time for anything; another process speaks. `head` closes the pipe; that is no fault of ours."""
    (tmp_path / "killed.py").write_text(MISTAKE + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n")
    (tmp_path / "talks.py").write_text(MISTAKE + "for i in range(200_000): print('line', i)\n")
    command = [sys.executable, "-m", "locus", "check"]
    killed = subprocess.run(
        [*command, "--json", "report.json", "killed.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL and killed.stdout == "on we go\n"
    assert killed.stderr.count("error[LOC004]") == 1 and "ended by SIGKILL" in killed.stderr, killed.stderr
    assert [f["code"] for f in json.loads((tmp_path / "report.json").read_text())["findings"]] == ["LOC004"]
    words = " ".join(command)
    piped = subprocess.run(
        ["bash", "-c", f"{words} talks.py | head -n 1; echo ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert piped.stdout == "on we go\n1\n", (piped.stdout, piped.stderr)
    assert piped.stderr.count("error[LOC004]") == 1 and "Exception ignored" not in piped.stderr, piped.stderr


class Terminal:
    """A program in a pty of 80 columns and 24 rows, and what it has written there."""

    def __init__(self, command, cwd):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.environ["TERM"] = "xterm"
            for name in [n for n in os.environ if n.startswith(("LOCUS_", "NO_COLOR"))]:
                del os.environ[name]
            os.execv(command[0], command)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.text = ""

    def read_until(self, pattern, seconds=90):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.text!r}"
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:
                data = b""
            if not data:
                assert pattern == "$^", f"no {pattern!r} in {self.text!r}"
                return
            self.text += data.decode("utf-8", "replace")

    def finish(self):
        self.read_until("$^")
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def screen(text, rows=24, columns=80):
    """What a terminal shows: printing, newlines, and the few sequences that Locus writes."""
    lines, row, column, top, bottom, saved = [""] * rows, 0, 0, 0, rows - 1, (0, 0)
    scrolled = []
    for token in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\x1b[78D]|.", text, re.S):
        if token == "\r":
            column = 0
        elif token in ("\n", "\x1bD"):
            if row == bottom:
                scrolled.append(lines[top])
                lines[top : bottom + 1] = [*lines[top + 1 : bottom + 1], ""]
            else:
                row = min(row + 1, rows - 1)
        elif token == "\x1b7":
            saved = (row, column)
        elif token == "\x1b8":
            row, column = saved
        elif not token.startswith("\x1b"):
            lines[row] = lines[row].ljust(column)[:column] + token + lines[row][column + 1 :]
            column += 1
        elif token.endswith("r"):
            numbers = [int(n) for n in token[2:-1].split(";") if n]
            top, bottom = (numbers[0] - 1, numbers[1] - 1) if numbers else (0, rows - 1)
            row = column = 0
        elif token.endswith("H"):
            row, column = (int(n) - 1 for n in token[2:-1].split(";"))
        elif token.endswith("A"):
            row = max(0, row - int(token[2:-1] or 1))
        elif token.endswith("K"):
            lines[row] = ""
    return scrolled + lines


def test_a_person_at_a_terminal(tmp_path):
    """The progress line comes, stays out of the program's way and goes; Ctrl-C gives the report so far."""
    each = "print('step', step, flush=True); import time; time.sleep(0.1)"
    (tmp_path / "prog.py").write_text(STEPS.format(count=1000, each=each))
    terminal = Terminal([sys.executable, "-m", "locus", "check", "prog.py"], tmp_path)
    terminal.read_until(r"locus: \d+ steps, [\d,]+ ops, 1 finding, \d+ s")
    terminal.read_until(r"step 30\r")
    shown = screen(terminal.text)
    assert re.match(r"locus: \d+ steps", shown[-1]), shown
    assert len([line for line in shown if re.fullmatch(r"step \d+", line)]) >= 30, shown
    os.write(terminal.descriptor, b"\x03")
    assert terminal.finish() == 130
    shown = screen(terminal.text)
    assert not [line for line in shown if re.match(r"locus: \d+ steps?, ", line)], shown
    numbers = [int(m[1]) for line in shown if (m := re.fullmatch(r"step (\d+)", line.removeprefix("^C")))]
    assert numbers == list(range(len(numbers))), shown
    assert "KeyboardInterrupt" in terminal.text and "\x1b[r" in terminal.text
    assert "error[LOC004]" in re.sub(r"\x1b\[[0-9;]*m", "", terminal.text)


def test_what_the_program_itself_catches_is_told(program, tmp_path):
    """No finding, but nobody should be green without knowing it. An error that is given on is found, and told once."""
    code = """
import contextlib, unittest, torch
x = torch.ones(4, device="cuda")
def step(w):
    try:
        return (x * w).sum()
    except Exception:
        return None
for w in (torch.ones(4), torch.ones(4, device="cuda"), torch.ones(4)):
    step(w)
with contextlib.suppress(RuntimeError):
    x + torch.ones(4)
with unittest.TestCase().assertRaises(RuntimeError):
    x - torch.ones(4)
print("done")
"""
    (tmp_path / "prog.py").write_text(code)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    assert (result.code, result.stdout) == (0, "done\n"), result.describe()
    notes = json.loads((tmp_path / "report.json").read_text())["notes"]
    assert [note for note in notes if "itself catches" in note] == [
        "a call with operands on several devices is refused at prog.py:6, and the program itself catches the error at "
        "prog.py:7: that is no finding",
        "a call with operands on several devices is refused at prog.py:12, and the program itself catches the error at "
        "prog.py:11: that is no finding",
    ]

    given_on = code.replace("return None", "raise ValueError('bad batch')")
    (tmp_path / "prog.py").write_text(given_on)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.code == 1 and [one["uses"][0]["line"] for one in report["findings"]] == [6], result.describe()
    assert not any("itself catches" in note for note in report["notes"])


EXIT = """
import os, sys, threading, torch

def refuse():  # in words that no rule has
    torch.block_diag(torch.ones(2, device="cuda"), torch.ones(2))

class Quits:
    def __enter__(self): pass
    def __exit__(self, *_): sys.exit(0)
"""
IN_A_THREAD = "thread = threading.Thread(target=work)\nthread.start()\nthread.join()"


@pytest.mark.parametrize(
    "last_words, is_found",
    [
        ("try: refuse()\nfinally: sys.exit(0)", True),
        ("try: refuse()\nfinally: os._exit(0)", True),
        ("with Quits(): refuse()", True),
        (f"def work():\n try: refuse()\n finally: sys.exit(0)\n{IN_A_THREAD}", True),
        ("try: refuse()\nexcept RuntimeError: sys.exit(0)", False),
        ("try: refuse()\nexcept RuntimeError: os._exit(0)", False),
        (f"def work():\n try: refuse()\n except RuntimeError: sys.exit(0)\n{IN_A_THREAD}", False),
        ("try: torch.ones(2, device='cuda')\nfinally: sys.exit(0)", False),
    ],
)
def test_an_exit_that_an_error_is_lost_with(program, tmp_path, last_words, is_found):
    """What a `finally` puts an exit in place of, nobody has caught; what a handler has got, it means to get."""
    (tmp_path / "prog.py").write_text(EXIT + last_words)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (result.code, len(report["findings"])) == ((1, 1) if is_found else (0, 0)), result.describe()
    if is_found:
        assert report["findings"][0]["uses"][0]["line"] == 5, result.describe()
