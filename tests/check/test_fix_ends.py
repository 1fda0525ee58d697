"""`locus fix` and `check --verify` end, whatever the program leaves running or waits for; what they say before they run
it again, and how often they do."""

import os
import signal
import time
from pathlib import Path

import pytest
from checker import IMPATIENT, LOCUS

FIXED = "1 finding, 1 fixed by verified edits; 1 more run"
MISTAKE = "\nx = torch.ones(2, device='cuda') + torch.ones(2)\n"
LOADER = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, num_workers=1, {options})
"""
FORGOTTEN = """
import subprocess, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        with open('left', 'a') as file:
            file.write(f'{os.getpid()} ')
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists('left') or len(open('left').read().split()) <= os.path.exists('again'):
    time.sleep(0.01)
open('again', 'w').close()
"""
# A child of C's fork(), which runs no hook of Python's, keeps every descriptor.
C_FORK = """
import ctypes
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    time.sleep(600)
    os._exit(0)
with open('left', 'a') as file:
    file.write(f'{pid} ')
"""
WAYS = {
    "persistent worker": LOADER.format(options="persistent_workers=True") + "for batch in loader: pass",
    "forgotten worker": LOADER.format(options="prefetch_factor=2") + "it = iter(loader); next(it)",
    "daemon thread": "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "children that outlive it": FORGOTTEN,
    "a child that keeps the pipes": C_FORK,
    "deaf to SIGTERM": "for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)",
    "standard input": "import sys; print(repr(sys.stdin.read()))",
    "waits for all children": "try:\n    while True: os.wait()\nexcept ChildProcessError: pass",
    "os._exit": "import atexit; atexit.register(time.sleep, 600); at_the_end = lambda: os._exit(0)",
    "closes all files": "os.closerange(3, 4096)",
    "closes standard error": "import sys; sys.stderr.close(); sys.stderr = None",
}
SLOW_ENDS = {
    "a thread without end": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "an exit handler without end": "import atexit; atexit.register(time.sleep, 600)",
}
HEAD = "import os, signal, threading, time, torch\nat_the_end = int\n"


def write(tmp_path, way, mistake=True):
    (tmp_path / "p.py").write_text(
        HEAD + way + (MISTAKE if mistake else "") + "\nprint('done', flush=True)\nat_the_end()\n"
    )


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


@pytest.fixture
def left(tmp_path):
    """The processes that a program has left behind, by the run; they go with the test."""
    path = tmp_path / "left"
    yield lambda: [int(word) for word in path.read_text().split()] if path.exists() else []
    for word in path.read_text().split() if path.exists() else []:
        if is_alive(word):
            os.kill(int(word), signal.SIGKILL)


@pytest.mark.parametrize("way", WAYS)
def test_it_ends(program, tmp_path, left, way):
    write(tmp_path, WAYS[way])
    result = program.run(LOCUS, "fix", "p.py", cwd=tmp_path, deadline=120)
    assert result.code == 1 and not result.timed_out and FIXED in result.stderr, result.describe()
    if left():
        first, second = left()
        assert is_alive(first), "the program's own child is left alone"
        assert not is_alive(second), "what was started again is gone"


@pytest.mark.parametrize("way", ["persistent worker", "children that outlive it", "a child that keeps the pipes"])
def test_it_ends_without_a_finding(program, tmp_path, left, way):
    write(tmp_path, WAYS[way] + "\ntorch.ones(2, device='cuda')", mistake=False)
    for command in (["fix"], ["check", "--verify"]):
        result = program.run(LOCUS, *command, "p.py", cwd=tmp_path, deadline=120)
        assert result.code == 0 and not result.timed_out and "again" not in result.stderr, result.describe()


@pytest.mark.parametrize("leads", [True, False])
def test_a_run_leads_its_group_as_the_first_did(program, tmp_path, leads):
    write(tmp_path, "with open('leads', 'a') as file: file.write(f'{os.getpgrp() == os.getpid()} ')\n")
    text = f"""
import os, sys
from locus.commands.cli import main
child = 0 if {leads} else os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(main(["fix", {str(tmp_path / "p.py")!r}]))
"""
    result = program.run_source(text, cwd=tmp_path, deadline=120)
    assert FIXED in result.stderr and (tmp_path / "leads").read_text() == f"{leads} {leads} ", result.describe()


def test_shared_memory_goes_with_a_run(program, tmp_path):
    """The process that takes it away is given the time to."""
    way = """
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory(create=True, size=64)
with open('names', 'a') as file:
    file.write(shared.name + ' ')
"""
    write(tmp_path, way)
    result = program.run(LOCUS, "fix", "p.py", cwd=tmp_path, deadline=120)
    first, second = (tmp_path / "names").read_text().split()
    (Path("/dev/shm") / first).unlink(missing_ok=True)
    assert FIXED in result.stderr and not (Path("/dev/shm") / second).exists(), result.describe()


def test_events_that_anybody_raises(program, tmp_path):
    """An audit event is no promise of its arguments."""
    way = """
import sys
for event in ("open", "os.rename", "os.remove", "os.mkdir", "socket.connect", "sqlite3.connect", "tempfile.mkstemp"):
    for given in ((), (1,), (None, 2), ("x\\0", [], {}), (b"\\xff", object(), object(), object())):
        sys.audit(event, *given)
"""
    write(tmp_path, way)
    result = program.run(LOCUS, "fix", "p.py", cwd=tmp_path, deadline=120)
    assert FIXED in result.stderr and "Traceback" not in result.stderr, result.describe()


def test_spawned_workers(program, tmp_path):
    options = "persistent_workers=True, multiprocessing_context='spawn'"
    write(tmp_path, "if __name__ == '__main__':\n" + (LOADER.format(options=options)
                    + "for batch in loader: pass" + MISTAKE).replace("\n", "\n    ") + "\n", mistake=False)  # fmt: skip
    result = program.run(LOCUS, "fix", "--steps", "1", "p.py", cwd=tmp_path, deadline=300)
    assert result.code == 1 and not result.timed_out and FIXED in result.stderr, result.describe()


@pytest.mark.parametrize("way", SLOW_ENDS)
@pytest.mark.parametrize("mistake", [True, False])
def test_python_itself_would_not_end(program, tmp_path, way, mistake):
    """It is given some time, and then reported on as it stands."""
    write(tmp_path, SLOW_ENDS[way], mistake)
    result = program.run(IMPATIENT, 120, 120, 0.3, "fix", "p.py", cwd=tmp_path, deadline=120, teardown=True)
    assert result.code == (1 if mistake else 2) and not result.timed_out, result.describe()
    assert (FIXED in result.stderr) == mistake, result.describe()
    assert mistake or "the check is incomplete: the program's threads and exit handlers" in result.stderr


HANGS_AGAIN = """
with open('runs', 'a') as file:
    file.write(f'{os.getpid()} ')
if len(open('runs').read().split()) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('so be it', file=__import__('sys').stderr, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_run_with_fixes_has_a_deadline(program, tmp_path):
    write(tmp_path, HANGS_AGAIN)
    result = program.run(IMPATIENT, 8, 120, 60, "fix", "p.py", cwd=tmp_path, deadline=120)
    assert result.code == 1 and not result.timed_out, result.describe()
    assert "the run with the fixes did not end within 8 s" in result.stderr, result.describe()
    assert "0 fixed by verified edits" in result.stderr, result.describe()
    runs = (tmp_path / "runs").read_text().split()
    assert len(runs) >= 2 and not any(is_alive(pid) for pid in runs[1:])


def test_all_runs_together_have_a_deadline(program, tmp_path):
    many = "".join(f"x{n} = torch.ones(2, device='cuda') + torch.ones(2)\n" for n in range(8))
    write(tmp_path, HANGS_AGAIN + many)
    result = program.run(IMPATIENT, 60, 8, 60, "fix", "p.py", cwd=tmp_path, deadline=120)
    assert result.code == 1 and "the time for further runs is used up" in result.stderr, result.describe()
    assert len((tmp_path / "runs").read_text().split()) == 2


def test_interrupted_while_it_runs_again(program, tmp_path):
    """Ctrl-C is for Locus, which reports without the fixes being tried; the run ends."""
    way = HANGS_AGAIN.replace(
        "time.sleep(600)", "os.kill(int(open('runs').read().split()[0]), signal.SIGINT); time.sleep(600)"
    )
    write(tmp_path, way)
    result = program.run(LOCUS, "check", "--verify", "p.py", cwd=tmp_path, deadline=120)
    assert result.code == 130 and "interrupted; the fixes were not tried to the end" in result.stderr, result.describe()
    assert "[suggested]" in result.stderr and "1 finding" in result.stderr, result.describe()
    assert until(lambda: not is_alive((tmp_path / "runs").read_text().split()[1]))


def test_says_what_it_will_do_again(program, tmp_path):
    way = """
import pathlib, shutil, socket, sqlite3, tempfile
open('old', 'w').close() if not os.path.exists('again') else None
os.makedirs('out/deep', exist_ok=True)
os.makedirs('empty', exist_ok=True)
torch.save(torch.ones(2), 'out/model.pt')
pathlib.Path('log.txt').write_text('x')
open('gone', 'w').close(); os.remove('gone')
open('part', 'wb').close(); os.replace('part', 'whole')
os.close(os.open(b'raw', os.O_CREAT | os.O_WRONLY))
shutil.copy('log.txt', 'log.old')
sqlite3.connect('runs.db').execute('create table if not exists t (c)')
sqlite3.connect(':memory:')
torch.jit.script(torch.nn.Linear(1, 1)).save('scripted.pt')
with tempfile.NamedTemporaryFile(dir='.') as file: file.write(b'x')
tempfile.TemporaryFile().write(b'x')
open('/dev/null', 'w').close()
open('p.py').read()
for missing in ('nothing', 'out'):
    try: os.remove(missing)
    except OSError: pass
server = socket.create_server(('127.0.0.1', 0))
socket.create_connection(server.getsockname())
print('port', server.getsockname()[1])
os.chdir('out')
open('late.txt', 'w').close()
"""
    write(tmp_path, way)
    (tmp_path / "precious").write_text("")
    result = program.run(LOCUS, "fix", "p.py", cwd=tmp_path, deadline=120)
    port = result.stdout.split()[1]
    lines = result.stderr.splitlines()
    assert lines[0] == "locus: running p.py again with the fixes, at most 16 times (--max-runs)", result.describe()
    assert lines[1] == (
        "locus: as in the first run, it writes old, out/model.pt, log.txt and 6 more files, "
        f"makes out/deep/ and empty/, connects to 127.0.0.1:{port}"
    ), result.describe()


def test_says_what_it_will_remove_again(program, tmp_path):
    (tmp_path / "precious").write_text("")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "leaf").write_text("")
    write(tmp_path, "import shutil\nif os.path.exists('tree'): os.remove('precious'); shutil.rmtree('tree')\n")
    result = program.run(LOCUS, "check", "--verify", "p.py", cwd=tmp_path, deadline=120)
    assert "as in the first run, it removes precious and tree\n" in result.stderr, result.describe()


def test_a_quiet_program_and_a_report_for_a_machine(program, tmp_path):
    write(tmp_path, "")
    result = program.run(LOCUS, "fix", "--max-runs", "1", "p.py", cwd=tmp_path, deadline=120)
    assert result.stderr.splitlines()[0] == "locus: running p.py again with the fixes, once (--max-runs)"
    assert "as in the first run" not in result.stderr, result.describe()
    result = program.run(LOCUS, "fix", "--format", "json", "p.py", cwd=tmp_path, deadline=120)
    assert result.stderr.startswith("{") and '"verified": true' in result.stderr, result.describe()


@pytest.mark.parametrize(
    "options, words",
    [
        (["fix", "--max-runs", "0"], ["--max-runs 0", "from 1 on"]),
        (["fix", "--max-runs", "many"], ["--max-runs many", "from 1 on"]),
        (["fix", "--max-runs=-1"], ["--max-runs -1", "from 1 on"]),
        (["check", "--verify", "--max-runs", "²"], ["--max-runs ²", "from 1 on"]),
        (["check", "--max-runs", "3"], ["--max-runs 3", "--verify"]),
        (["fix", "--nproc", "2", "--max-runs", "0"], ["--max-runs 0", "from 1 on"]),
    ],
)
def test_bad_options(program, tmp_path, options, words):
    (tmp_path / "p.py").write_text("print('ran')")
    result = program.run(LOCUS, *options, "p.py", cwd=tmp_path)
    assert result.code == 2 and result.stdout == "" and "Traceback" not in result.stderr, result.describe()
    assert all(word in result.stderr for word in words), result.describe()
