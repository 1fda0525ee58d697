"""A check covers the processes that a program starts: their findings are in its report, what they ran has run."""

import json
import time
from pathlib import Path

import pytest

LOCUS = Path(__file__).parents[1] / "check" / "run_check.py"

PROGRAM = """
import multiprocessing as mp
import subprocess
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return scaled(torch.tensor([float(index)]))


def scaled(x):
    return x * torch.tensor([2.0])


def never(x):
    return torch.relu(x)


def work(device):
    x = torch.ones(2, device=device) + torch.ones(2)
    print("worked", x.sum().item(), flush=True)


if __name__ == "__main__":
    print(sorted(float(b.sum()) for b in DataLoader(Numbers(), batch_size=2, num_workers=1)), flush=True)
    for method in {methods}:
        worker = mp.get_context(method).Process(target=work, args=("cuda:1",))
        worker.start()
        worker.join()
        print(method, worker.exitcode, flush=True)
    code = "import torch; torch.ones(3, device='cuda') * torch.ones(3)  # locus: ignore[LOC004] on purpose"
    if {subprocess}:
        print("subprocess", subprocess.run([sys.executable, "-c", code]).returncode)
"""


def check(program, tmp_path, methods, other=False):
    (tmp_path / "prog.py").write_text(PROGRAM.replace("{methods}", repr(methods)).replace("{subprocess}", repr(other)))
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    return result, json.loads((tmp_path / "report.json").read_text())


def test_forked_workers(program, tmp_path):
    result, report = check(program, tmp_path, ["fork"])
    assert result.code == 1 and result.stdout.splitlines() == ["[2.0, 10.0]", "worked 4.0", "fork 0"], result.describe()
    assert [(f["code"], f["cause"]["function"]) for f in report["findings"]] == [("LOC004", "work")]
    assert [each["function"] for each in report["not_run"]] == ["never"], result.describe()
    assert result.stderr.count("error[LOC004]") == 1 and result.stderr.count("locus: ") == 1, result.describe()


@pytest.mark.parametrize("methods, other", [(["spawn", "forkserver"], False), ([], True)])
def test_fresh_processes(program, tmp_path, methods, other):
    result, report = check(program, tmp_path, methods, other)
    lines = ["[2.0, 10.0]"]
    for method in methods:
        lines += ["worked 4.0", f"{method} 0"]
    assert result.stdout.splitlines() == lines + ["subprocess 0"] * other, result.describe()
    if methods:
        assert [(f["code"], f["count"]) for f in report["findings"]] == [("LOC004", 2)], result.describe()
        claimed = [each["function"] for each in report["not_run"]]
        assert claimed in ([], ["never"]), result.describe()  # nothing, where a process has not said what it ran
    else:
        assert report["program"]["exit"] == 0 and result.code in (0, 1), result.describe()
        assert len(report["findings"]) + len(report["ignored"]) == 1, result.describe()


DAMAGED = """
import os, torch
torch.ones(3, device="cuda") * 2
with open(os.path.join(os.environ["LOCUS_CHECK_DIR"], "1.json"), "w") as file:
    file.write('{"version": 1, "findings": [')
"""


def test_a_report_that_cannot_be_read_never_looks_like_success(program, tmp_path):
    (tmp_path / "prog.py").write_text(DAMAGED)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.code == 2 and report["program"]["incomplete"], result.describe()
    assert any("the report of a process" in note and "process 1" in note for note in report["notes"]), report["notes"]


def test_a_process_that_cannot_be_followed_is_told(program, tmp_path):
    text = """
import os, subprocess, sys
import torch

torch.ones(2, device="cuda").sum()
python = os.path.basename(sys.executable)
few = {"PATH": os.environ["PATH"]}
subprocess.run([sys.executable, "-c", "pass"], env=few)
subprocess.run(f"exec {python} -c pass", shell=True, env=few)
subprocess.run([sys.executable, "-BS", "-c", "pass"])
subprocess.run([sys.executable, "-c", "pass"], env={**os.environ, "A": "b"})
subprocess.run([sys.executable, "-c", "pass", "-S"])
subprocess.run(["sh", "-c", "true # cpython"], env=few)
print("done")
"""
    (tmp_path / "prog.py").write_text(text)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    assert (result.code, result.stdout) == (0, "done\n"), result.describe()
    notes = json.loads((tmp_path / "report.json").read_text())["notes"]
    told = "{} starts a Python process that this check does not see: {}"
    variables = (
        "the environment that it is given leaves out the variables of Locus; with env={**os.environ, …} it is checked"
    )
    assert notes == [
        told.format("prog.py:8, prog.py:9", variables),
        told.format("prog.py:10", "python -S does not load what begins a check"),
    ]


LOSES = """
import _thread, os, sys, torch

def refuse():  # in words that no rule has
    torch.block_diag(torch.ones(2, device="cuda"), torch.ones(2))

class Quits:
    def __enter__(self): pass
    def __exit__(self, *_): raise SystemExit(0)
"""
PARENT = "import subprocess, sys, torch\nprint(subprocess.run([sys.executable, 'child.py']).returncode)\n"


@pytest.mark.parametrize(
    "last_words, is_found",
    [
        ("try: refuse()\nfinally: sys.exit(3)", True),
        ("try: refuse()\nfinally: os._exit(3)", True),
        ("with Quits(): refuse()", True),
        ("try: refuse()\nexcept RuntimeError: sys.exit(3)", False),
        ("try: refuse()\nexcept RuntimeError: os._exit(3)", False),
        ("kept = []\ntry:\n try: refuse()\n finally: sys.exit(3)\nexcept SystemExit as exit: kept.append(exit)", False),
    ],
)
def test_an_exit_of_a_process_that_an_error_is_lost_with(program, tmp_path, last_words, is_found):
    """Nothing of Locus's is around a process that the program starts: Python itself hears of its exit."""
    (tmp_path / "child.py").write_text(LOSES + last_words)
    (tmp_path / "prog.py").write_text(PARENT)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.stdout == ("3\n" if "(3)" in last_words and "kept" not in last_words else "0\n"), result.describe()
    assert (result.code, len(report["findings"])) == ((1, 1) if is_found else (0, 0)), result.describe()
    if is_found:
        assert report["findings"][0]["uses"][0]["line"] == 5, result.describe()
        assert report["findings"][0]["count"] == 1, report["findings"][0]


SILENCED = """
import multiprocessing as mp
import resource, sys
import torch

def work():
    {silenced}
    torch.ones(2, device="cuda") + torch.ones(2)  # locus: ignore[LOC004] on purpose

if __name__ == "__main__":
    torch.ones(2)
    process = mp.get_context(sys.argv[1]).Process(target=work)
    process.start()
    process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("silenced", ["resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))", ""])
def test_a_process_that_cannot_say_what_it_found_never_looks_like_success(program, tmp_path, method, silenced):
    (tmp_path / "prog.py").write_text(SILENCED.replace("{silenced}", silenced or "pass"))
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", method, cwd=tmp_path, deadline=180)
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.code == (2 if silenced else 0), result.describe()
    told = "a fault inside Locus kept it from looking at everything in a process that the program started"
    assert report["program"]["incomplete"] == (told if silenced else ""), result.describe()


FAULTY = """
import contextlib, os, signal, subprocess, sys, torch
import locus.faults
from locus._load import load_bridge

def fault():
    if "explaining" in sys.argv:
        load_bridge().set_reporter(lambda *given: 1 / 0)
        with contextlib.suppress(RuntimeError):
            torch.ones(2, device="cuda") + torch.ones(2)
    else:
        locus.faults.note("a look around", ValueError("which goes wrong"))
    os.kill(os.getpid(), signal.SIGKILL)

if "itself" in sys.argv:
    torch.ones(2, device="cuda").sum()
    fault()
elif "fork" in sys.argv:  # before there is a device
    child = os.fork()
    os.waitpid(child, 0) if child else fault()
else:
    subprocess.run([sys.executable, *sys.argv, "itself"])
torch.ones(2, device="cuda").sum()
"""


@pytest.mark.parametrize("who", ["itself", "fork", "process"])
@pytest.mark.parametrize("what", ["explaining", "looking"])
def test_a_fault_of_the_check_in_a_process_that_is_killed(program, tmp_path, who, what):
    """Nobody writes a report there any more."""
    (tmp_path / "prog.py").write_text(FAULTY)
    result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", what, who, cwd=tmp_path, deadline=180)
    found = wait_for_report(tmp_path / "report.json")
    told = "a fault inside Locus kept it from looking at everything"
    assert found["verdict"]["is"] == "incomplete", result.describe()
    assert found["program"]["incomplete"].startswith(told), found["program"]
    assert result.code == (-9 if who == "itself" else 2), result.describe()


def wait_for_report(path):
    """Of a program that was killed: its companion writes it when it is gone."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return json.loads(path.read_text())


def test_a_process_without_the_variables_of_locus(program, tmp_path):
    """A process that is checked stays so, whatever it makes of its own variables; those that it starts are not."""
    (tmp_path / "child.py").write_text(
        "import os, torch\nos.environ.clear()\ntorch.ones(2, device='cuda') + torch.ones(2)\n"
    )
    start = "os.system(sys.executable + ' child.py')\n"
    text = "import os, sys, torch\ntorch.ones(2, device='cuda').sum()\n{}" + start
    for before, code in (("os.environ['HOME'] = '/'\n", 1), ("os.environ.clear()\n", 0)):
        (tmp_path / "prog.py").write_text(text.format(before))
        result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
        report = json.loads((tmp_path / "report.json").read_text())
        assert (result.code, len(report["findings"])) == (code, code), result.describe()
        unseen = [note for note in report["notes"] if "does not see" in note]
        assert unseen == ([] if code else [
            "prog.py:4 starts a Python process that this check does not see: the program has taken the variables of "
            "Locus out of os.environ; with them there it is checked"
        ]), report["notes"]  # fmt: skip
        assert report["program"]["all_seen"] == bool(code), report["program"]
        assert ("locus: no placement mistakes in what was checked (" in result.stderr) != bool(code), result.describe()


def test_a_process_that_is_still_at_work_is_told(program, tmp_path):
    (tmp_path / "child.py").write_text("import sys, time, torch\ntime.sleep(float(sys.argv[1]))\n")
    text = """
import subprocess, sys, torch
torch.ones(2, device="cuda").sum()
subprocess.Popen([sys.executable, "child.py", "{}"], start_new_session=True, stdout=subprocess.DEVNULL){}
subprocess.run(sys.executable + " child.py {} > /dev/null 2>&1 &", shell=True)
subprocess.Popen(["sleep", "9"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
terminated = subprocess.Popen([sys.executable, "child.py", "8"])
terminated.terminate()
"""
    notes = []
    for given in (("9", "", "10"), ("0", ".wait()", "0; :")):
        (tmp_path / "prog.py").write_text(text.format(*given).replace(" 0; : > /dev/null 2>&1 &", " 0"))
        result = program.run(LOCUS, "check", "--json", "report.json", "prog.py", cwd=tmp_path, deadline=180)
        assert result.code == 0, result.describe()
        assert (" in what was checked (" in result.stderr) == (given[0] == "9"), result.describe()
        notes.append([note for note in json.loads((tmp_path / "report.json").read_text())["notes"] if "still" in note])
    for note, words in zip(notes[0], ("child.py 10", "child.py 9"), strict=True):
        assert note.startswith("still running when this report was made: `python") and f"{words}`, which" in note, note
    assert notes[1] == [], notes
