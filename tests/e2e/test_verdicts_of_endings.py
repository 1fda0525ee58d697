"""The clean verdict is tested as hard as the findings: each way to end a program, with findings and without, on the CPU
alone and without a single operator, gives one sentence and one exit status, the same in text, JSON, SARIF and HTML.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"

BEFORE = {
    "findings": "import torch\ntorch.ones(2, device='cuda') + torch.ones(2)\n",
    "nothing-found": "import torch\ntorch.ones(2, device='cuda') + 1\n",
    "nothing-on-device": "import torch\ntorch.ones(2) + 1\n",
    "nothing-checked": "import torch\n",
}
"""What a program does before it ends, by the verdict."""


class Way(NamedTuple):
    """A way to end."""

    code: str
    exit: int = 0
    """The program's own exit status."""
    words: str = ""
    """How the report calls it; empty: the program finished."""
    status: int | None = None
    """What the process itself ends with, where nothing can change that."""
    quick: bool = True


WAYS = {
    "normally": Way("pass"),
    "sys.exit(0)": Way("import sys; sys.exit(0)"),
    "sys.exit(3)": Way("import sys; sys.exit(3)", 3, "ended with exit status 3"),
    "sys.exit(words)": Way("import sys; sys.exit('gone')", 1, "ended with exit status 1"),
    "an exception": Way("raise ValueError('own fault')", 1, "ended with ValueError (exit status 1)"),
    "an own exception": Way(
        "class Oops(BaseException): pass\nraise Oops", 1, "ended with Oops (exit status 1)"
    ),
    "a SyntaxError": Way("exec('def')", 1, "ended with SyntaxError (exit status 1)"),
    "os._exit(0)": Way("import os; os._exit(0)"),
    "os._exit(4)": Way("import os; os._exit(4)", 4, "ended with exit status 4"),
    "os._exit in a thread": Way(
        "import os, threading, time\nthreading.Thread(target=os._exit, args=(5,)).start(); time.sleep(60)",
        5, "ended with exit status 5",
    ),
    "another program": Way("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'pass'])"),
    "another program fails": Way(
        "import os; os.execlp('sh', 'sh', '-c', 'exit 7')", 7, "ended with exit status 7"
    ),
    "no other program": Way(
        "import os; os.execvp('/no/such/program', ['x'])", 1, "ended with FileNotFoundError (exit status 1)"
    ),
    "an exit handler": Way("import atexit, os; atexit.register(os._exit, 6)", 6, "ended with exit status 6"),
    "SIGTERM": Way("import os; os.kill(os.getpid(), 15)", 143, "was ended by SIGTERM", -15),
    "Ctrl-C": Way("import os; os.kill(os.getpid(), 2)", 130, "was ended by SIGINT", 130),
    "out of device memory": Way(
        "torch.empty(1 << 40, dtype=torch.uint8, device='cuda')", 1, "ran out of device memory"
    ),
    "kill -9": Way("import os; os.kill(os.getpid(), 9)", 137, "was ended by SIGKILL", -9, quick=False),
    "abort": Way("import os; os.abort()", 134, "was ended by SIGABRT", -6, quick=False),
    "SIGALRM": Way(
        "import signal, time; signal.alarm(1); time.sleep(60)", 142, "was ended by SIGALRM", -14, quick=False
    ),
    "a fault": Way(
        "import ctypes; ctypes.string_at(torch.ones(2, device='cuda').data_ptr(), 1)",
        139, "was ended by SIGSEGV", -11, quick=False,
    ),
}  # fmt: skip


def expected(before, way):
    """The verdict, the exit status and how the sentence begins."""
    count = before == "findings"
    if way.words.startswith("ran out"):
        before, count = "findings", count + 1  # that is a finding, too
    elif way.words.startswith("was ended by SIGSEGV") and before != "findings":
        before = "nothing-found"  # it takes a device to get there
    end = f" before the program {way.words}" if way.words else ""
    if before == "findings":
        begin, status = f"{'1 finding (1 error)' if count == 1 else '2 findings (2 errors)'}{end}", 1
    elif before == "nothing-found":
        begin, status = (f"nothing found{end}" if end else "no placement mistakes"), way.exit
    elif before == "nothing-on-device":
        begin, status = f"nothing ran on a device{end}: all its ", way.exit
    elif way.words:
        begin, status = f"nothing was checked: the program {way.words} before it called an operator", way.exit
    else:
        begin, status = "nothing was checked: the program called no operator", 2
    return before, status if way.status is None else way.status, begin


def judge(folder, before, way, code, stderr):
    verdict, status, begin = expected(before, way)
    report = json.loads((folder / "report.json").read_text())
    said = " ".join(stderr.split())
    assert f"locus: {begin}" in said, stderr
    assert stderr.count("locus: ") - stderr.count("locus: host code") - stderr.count("locus: on a real") == 1, stderr
    assert not way.words or "no placement mistakes" not in said
    assert code == status, (code, stderr)
    assert report["verdict"]["is"] == verdict and report["verdict"]["words"].startswith(begin), report["verdict"]
    assert report["verdict"]["finished"] is (not way.words)
    assert report["program"]["exit"] == way.exit
    if status >= 0:
        assert report["verdict"]["exit"] == status
    invocation = json.loads((folder / "report.sarif").read_text())["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is (not way.words and verdict != "nothing-checked")
    page = (folder / "report.html").read_text()
    assert (
        f'"verdict {"error" if verdict == "findings" else "ok" if invocation["executionSuccessful"] else "warning"}"'
        in page
    )
    assert begin.split(" before")[0].split(":")[0].split(" (")[0][1:] in page


FILES = ["--json", "report.json", "--sarif", "report.sarif", "--html", "report.html"]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.quick])
def test_an_ending(program, tmp_path, before, name):
    (tmp_path / "prog.py").write_text(BEFORE[before] + WAYS[name].code + "\n")
    result = program.run(LOCUS, "check", *FILES, "prog.py", cwd=tmp_path, deadline=120, teardown=True)
    judge(tmp_path, before, WAYS[name], result.code, result.stderr)


@pytest.mark.parametrize("before", ["findings", "nothing-found"])
@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if not way.quick])
def test_an_ending_without_a_word(tmp_path, before, name):
    """Another process speaks for the program; so each is a fresh one."""
    end_without_a_word(tmp_path, before, name)


@pytest.mark.slow
@pytest.mark.parametrize("before", ["nothing-on-device", "nothing-checked"])
@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if not way.quick])
def test_an_ending_without_a_word_or_a_device(tmp_path, before, name):
    end_without_a_word(tmp_path, before, name)


def end_without_a_word(tmp_path, before, name):
    (tmp_path / "prog.py").write_text(BEFORE[before] + WAYS[name].code + "\n")
    command = [sys.executable, "-m", "locus", "check", *FILES, "prog.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    deadline = time.monotonic() + 120
    while not (tmp_path / "report.html").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    judge(tmp_path, before, WAYS[name], result.returncode, result.stderr)


def test_a_program_that_is_no_python(program, tmp_path):
    cells = {"cells": [{"cell_type": "code", "source": ["import torch"]}], "nbformat": 4}
    for name, text, word in (
        ("book.py", json.dumps(cells), "notebook"),
        ("data.json", '{"lr": 1}', "JSON"),
        ("model.pt", "PK\0\1", "no text"),
    ):
        (tmp_path / name).write_text(text)
        for command in (["check"], ["check", "--nproc", "2"], ["run"], ["fix"]):
            result = program.run(LOCUS, *command, name, cwd=tmp_path, deadline=120)
            assert result.code == 2 and name in result.stderr and word in result.stderr, result.describe()
            assert result.stderr.count("locus: ") == 1, result.describe()


def test_allow_empty(program, tmp_path):
    (tmp_path / "prog.py").write_text("print('hello')\n")
    result = program.run(LOCUS, "check", "prog.py", cwd=tmp_path, deadline=120)
    assert result.code == 2 and "use --allow-empty" in " ".join(result.stderr.split()), result.describe()
    result = program.run(LOCUS, "check", "--allow-empty", "prog.py", cwd=tmp_path, deadline=120)
    assert result.code == 0 and "nothing was checked" in result.stderr, result.describe()
    (tmp_path / "prog.py").write_text("raise SystemExit(7)\n")
    assert program.run(LOCUS, "check", "--allow-empty", "prog.py", cwd=tmp_path, deadline=120).code == 7


LATE = {
    "a thread": "import threading\nthreading.Timer(0.3, mistake).start()",
    "an exit handler": "import atexit\natexit.register(mistake)",
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor\nimport time\npool = ThreadPoolExecutor(1)\n"
        "pool.submit(time.sleep, 0.3)\npool.submit(mistake)"
    ),
    "a process": "import multiprocessing\nmultiprocessing.get_context('fork').Process(target=mistake).start()",
}


@pytest.mark.parametrize("name", LATE)
def test_what_runs_after_the_last_line_is_checked_too(program, tmp_path, name):
    """Python waits for threads, exit handlers and processes; what they do belongs to the program."""
    text = "import torch\ndef mistake():\n    torch.ones(2, device='cuda') + torch.ones(2)\n"
    (tmp_path / "prog.py").write_text(text + LATE[name] + "\nprint('the last line', flush=True)\n")
    result = program.run(LOCUS, "check", "prog.py", cwd=tmp_path, deadline=120, teardown=True)
    assert result.code == 1 and result.stderr.count("error[LOC004]") == 1, result.describe()


def test_what_only_forked_processes_do_is_checked(program, tmp_path):
    (tmp_path / "prog.py").write_text(
        "import multiprocessing, torch\ndef work():\n    torch.ones(2, device='cuda') + 1\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start(); child.join()\n"
    )
    result = program.run(LOCUS, "check", "prog.py", cwd=tmp_path, deadline=120, teardown=True)
    assert result.code == 0 and "no placement mistakes" in result.stderr, result.describe()


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("options", [[], ["--nproc", "2"]])
def test_a_second_signal_does_not_cost_the_report(tmp_path, number, status, options):
    join = "import torch.distributed as dist; dist.init_process_group('nccl')\n" if options else ""
    (tmp_path / "prog.py").write_text(
        BEFORE["findings"] + join + "import os, time; os.write(1, b'ready\\n'); time.sleep(600)\n"
    )  # one write: two ranks that print may mingle their lines
    command = [sys.executable, "-m", "locus", "check", *options, "--json", "report.json", "prog.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2 if options else 1):
        assert process.stdout.readline() == "ready\n"
    for _ in range(3):
        process.send_signal(number)
        time.sleep(0.2)
        if process.poll() is not None:
            break
    _, stderr = process.communicate(timeout=300)
    assert process.returncode in (status, -number if number == signal.SIGTERM else status), stderr
    assert stderr.count("error[LOC004]") == 1, stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["program"]["ended_by"] == number.name and report["verdict"]["exit"] == status
