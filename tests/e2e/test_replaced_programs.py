"""A program that puts another in its own place (os.exec…) takes nothing of the check with it: what both do is checked,
the exit status is the last one's, and what the program is told is what it would have been told.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"

AGAIN = """
import os
import sys

import torch

if len(sys.argv) == 1:
    torch.ones(3, device="cuda") + torch.ones(3)
    print("first", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
x = torch.ones(4, device="cuda") * torch.arange(4)
print(sys.argv[1], x.sum().item())
"""


def check(program, tmp_path, text):
    (tmp_path / "prog.py").write_text(text)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    return result, json.loads((tmp_path / "report.json").read_text())


def test_both_are_checked(program, tmp_path):
    result, report = check(program, tmp_path, AGAIN)
    assert result.code == 1
    assert result.stdout == "first\nagain 6.0\n"
    assert sorted(one["uses"][0]["line"] for one in report["findings"]) == [8, 11]
    assert report["verdict"]["finished"]


def test_a_program_that_sets_its_environment_first(program, tmp_path):
    result, report = check(
        program, tmp_path,
        """
import os, sys
if os.environ.get("PYTHONHASHSEED") != "0":
    os.execvpe(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
import torch
print(torch.ones(3, device="cuda").sum().item(), hash("x") == hash("x"))
""",
    )  # fmt: skip
    assert (result.code, result.stdout) == (0, "3.0 True\n")
    assert report["findings"] == [] and report["verdict"]["is"] == "nothing-found"


def test_a_process_that_replaces_itself(program, tmp_path):
    """Started by the program, or forked: what it found before keeps its place beside what comes after."""
    result, report = check(
        program, tmp_path,
        """
import os, subprocess, sys
import torch
if sys.argv[1:] == ["third"]:
    torch.ones(5, device="cuda") - torch.ones(5)
elif sys.argv[1:] == ["second"]:
    torch.ones(4, device="cuda") * torch.ones(4)
    os.execv(sys.executable, [sys.executable, __file__, "third"])
else:
    subprocess.run([sys.executable, __file__, "second"], check=True)
    child = os.fork()
    if child == 0:
        os.execlp("sh", "sh", "-c", "exit 3")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    print("done")
""",
    )  # fmt: skip
    assert (result.code, result.stdout) == (1, "done\n")
    assert sorted(one["uses"][0]["line"] for one in report["findings"]) == [5, 7]


def test_threads_and_exit_handlers_of_the_replaced_program_are_gone(program, tmp_path):
    result, _ = check(
        program, tmp_path,
        """
import atexit, os, sys, threading, time
import torch
torch.ones(2, device="cuda").sum()
def tick():
    while True:
        time.sleep(0.01)
        if os.path.exists("other-runs"):  # before that, the thread may well be at work
            print("a thread runs on", flush=True)
atexit.register(print, "an exit handler")
threading.Thread(target=tick).start()
os.execlp("sh", "sh", "-c", "touch other-runs; sleep 1; echo other")
""",
    )  # fmt: skip
    assert result.code == 0
    assert result.stdout == "other\n", result.describe()


def test_signals_reach_the_other_program(tmp_path):
    (tmp_path / "prog.py").write_text(
        """
import os, sys, torch
torch.ones(2, device="cuda") + torch.ones(2)
os.execlp("sh", "sh", "-c", "trap 'echo heard; exit 9' TERM; echo ready; while :; do sleep 0.1; done")
"""
    )
    check = subprocess.Popen(
        [sys.executable, LOCUS, "check", "prog.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert check.stdout.readline() == "ready\n"
    time.sleep(0.2)
    check.send_signal(signal.SIGTERM)
    out, err = check.communicate(timeout=120)
    assert out == "heard\n"
    assert check.returncode == 1 and "ended with exit status 9" in err
