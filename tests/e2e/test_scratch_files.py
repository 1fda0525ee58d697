"""Locus's temporary files: nobody else can read, plant or redirect them, and they are gone however a command ends."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from locus.errors import LocusError
from locus.process import children

from locus import scratch

IMPATIENT = Path(__file__).parents[1] / "check" / "run_impatient.py"
MISTAKE = "import os, signal, sys, time, torch\nx = torch.ones(2, device='cuda') + torch.ones(2)\n"


@pytest.fixture
def locus(program, tmp_path):
    """Runs a program under a command, with temporary files in a folder of the test's own; (result, that folder)."""
    folder = tmp_path / "temporary"
    folder.mkdir()

    def run(command, text, **more):
        (tmp_path / "p.py").write_text(text)
        environment = {"TMPDIR": str(folder), **more.pop("env", {})}
        arguments = (IMPATIENT, 120, 240, 60, *command, "p.py")
        return program.run(*arguments, cwd=tmp_path, deadline=120, env=environment, **more), folder

    return run


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def is_empty(folder):
    return not os.listdir(folder)


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


LINKS = """
import os, sys, time, torch
folder = os.environ["LOCUS_CHECK_DIR"]
own = os.path.join(folder, "so-far")
if os.path.exists(own):
    os.unlink(own)
os.symlink(os.path.abspath("victim"), own)
os.umask(0)
{mistakes}
if os.fork() == 0:
    os.symlink(os.path.abspath("victim"), os.path.join(folder, f"{{os.getpid()}}.ran"))
    sys.exit(0)
os.wait()
found = [folder, *(os.path.join(folder, name) for name in os.listdir(folder))]
print(*sorted({{oct(os.lstat(path).st_mode) for path in found}}))
print(*sorted(name.partition('.')[2] or name for name in os.listdir(folder)))
"""


def test_modes_and_planted_links(locus, tmp_path):
    """Under a umask that takes nothing, and with links where the files of the program and of a child will be."""
    (tmp_path / "victim").write_text("precious")
    # A finding is written down when the last time is some time ago.
    one = "if os.path.islink(own): time.sleep({n}); x = torch.ones(2, device='cuda') + torch.ones(2)\n"
    result, folder = locus(["check"], LINKS.format(mistakes="".join(one.format(n=n) for n in (0, 0.2, 1, 5, 10))))
    assert result.code == 1, result.describe()
    assert result.stdout.splitlines() == ["0o100600 0o40700", "owner ran so-far"], result.describe()
    assert (tmp_path / "victim").read_text() == "precious"
    assert until(lambda: is_empty(folder)), os.listdir(folder)


@pytest.mark.parametrize("command", [["check"], ["fix"], ["check", "--verify"]])
def test_gone_when_the_program_is_killed(locus, command):
    """A forked child goes on for a while, and has a finding after the program's death."""
    after = """
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(0.5)
y = torch.ones(3) + torch.ones(3)
"""
    result, folder = locus(command, MISTAKE + after)
    assert result.code == -signal.SIGKILL, result.describe()
    assert until(lambda: is_empty(folder)), os.listdir(folder)


AGAIN = """
with open('runs', 'a') as file:
    file.write(f'{os.getpid()} ')
with open('parents', 'a') as file:
    file.write(f'{os.getppid()} ')
first, *others = open('runs').read().split()
if others:
"""


def test_gone_when_a_run_with_fixes_is_killed(locus):
    result, folder = locus(["fix"], MISTAKE + AGAIN + "    os.kill(os.getpid(), signal.SIGKILL)\n")
    assert result.code == 1 and "did not come to its end" in result.stderr, result.describe()
    assert until(lambda: is_empty(folder)), os.listdir(folder)


@pytest.mark.parametrize("victims", [["first"], ["first", "os.getppid()"]])
def test_gone_when_locus_is_killed_while_it_runs_the_program_again(locus, tmp_path, victims):
    """And so are the run itself, and the process that runs it."""
    kills = "".join(f"    os.kill(int({victim}), signal.SIGKILL)\n" for victim in victims)
    result, folder = locus(["fix"], MISTAKE + AGAIN + kills + "    time.sleep(600)\n")
    assert result.code == -signal.SIGKILL, result.describe()
    rerun = (tmp_path / "runs").read_text().split()[1]
    server = (tmp_path / "parents").read_text().split()[1]
    assert until(lambda: is_empty(folder) and is_gone(rerun) and is_gone(server)), (os.listdir(folder), rerun, server)


def test_gone_when_the_process_that_runs_it_again_is_killed(locus, tmp_path):
    result, folder = locus(["fix"], MISTAKE + AGAIN + "    os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)\n")
    assert result.code == 1 and "the process that runs it again has gone" in result.stderr, result.describe()
    assert until(lambda: is_empty(folder) and is_gone((tmp_path / "runs").read_text().split()[1]))


def test_gone_when_the_launcher_of_ranks_is_killed(locus):
    """Ranks that never import PyTorch: what is tested is the launcher."""
    text = "import os, time\nif os.environ['RANK'] == '0': os.kill(os.getppid(), 9)\ntime.sleep(600)\n"
    result, folder = locus(["check", "--nproc", "2"], text)
    assert result.code == -signal.SIGKILL, result.describe()
    assert until(lambda: is_empty(folder)), os.listdir(folder)


def test_the_program_finds_its_own_temporary_folder(locus, tmp_path):
    """That Locus has used the folder before does not decide for the program."""
    (tmp_path / "mine").mkdir()
    text = "import os, tempfile\nos.environ['TMPDIR'] = os.path.abspath('mine')\nprint(tempfile.gettempdir())\n"
    result, _ = locus(["check"], text)
    assert result.stdout == f"{tmp_path / 'mine'}\n", result.describe()


def test_gone_when_pytest_is_killed(tmp_path):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "test_one.py").write_text("import os\ndef test_one():\n    os.kill(os.getpid(), 9)\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--locus", "test_one.py"], cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == -signal.SIGKILL, result.stdout + result.stderr
    assert until(lambda: is_empty(tmp_path / "temporary")), os.listdir(tmp_path / "temporary")


@pytest.mark.parametrize("command", ["check", "fix"])
def test_no_folder_can_be_made(program, tmp_path, command):
    (tmp_path / "p.py").write_text("print('ran')")
    text = f"""
import sys, tempfile
from locus.commands.cli import main
tempfile.tempdir = {str(tmp_path / "missing")!r}
sys.exit(main([{command!r}, "p.py"]))
"""
    result = program.run_source(text, cwd=tmp_path)
    assert result.code == 2 and result.stdout == "" and "Traceback" not in result.stderr, result.describe()
    assert f"{tmp_path / 'missing'}: No such file or directory" in result.stderr and "TMPDIR" in result.stderr


def test_a_full_disk(tmp_path):
    """No file can get a byte, as on a full disk: the kernel refuses, whatever folder is tried."""
    (tmp_path / "p.py").write_text("print('ran')")
    result = subprocess.run(
        [sys.executable, "-m", "locus", "check", "p.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )  # fmt: skip
    assert result.returncode == 2 and result.stdout == "" and "Traceback" not in result.stderr, result.stderr
    assert "TMPDIR" in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr


def test_a_disk_that_fills_up_while_the_fixes_are_tried(locus):
    """What was found is not lost. (A file may get 8 KiB: enough for standard error, too little for texts.)"""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
    result, folder = locus(["fix"], MISTAKE + limit + f"# {'long ' * 4000}\n")
    assert result.code == 1 and "Traceback" not in result.stderr, result.describe()
    assert "the fixes were not tried" in result.stderr and "TMPDIR" in result.stderr, result.describe()
    assert "error[LOC004]" in result.stderr and "1 finding" in result.stderr, result.describe()
    assert until(lambda: is_empty(folder)), os.listdir(folder)


# --- The parts ---


def test_a_link_is_never_followed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious")
    link.symlink_to(victim)
    with pytest.raises(FileExistsError):
        scratch.create(str(link))
    with pytest.raises(OSError):
        scratch.read(str(link))
    scratch.write(str(link), b"new")
    assert victim.read_text() == "precious" and not link.is_symlink() and scratch.read(str(link)) == b"new"
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError):
        scratch.create(str(tmp_path / "dangling"))
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_modes(tmp_path, monkeypatch, umask):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = os.umask(umask)
    try:
        folder = scratch.make()
        inner = scratch.make_inside(folder, "inner")
        scratch.write(os.path.join(inner, "file"), "text")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.lstat(path).st_mode) for path in (folder, inner, os.path.join(inner, "file"))]
    assert modes == [0o700, 0o700, 0o600] and scratch.is_own(folder) and os.listdir(inner) == ["file"]
    scratch.remove(folder)
    assert not os.listdir(tmp_path)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    scratch.write(str(tmp_path / "file"), "old")
    with pytest.raises(UnicodeEncodeError):
        scratch.write(str(tmp_path / "file"), "\ud800")
    assert os.listdir(tmp_path) == ["file"] and scratch.read(str(tmp_path / "file")) == b"old"


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    for mode, is_own in ((0o700, True), (0o755, True), (0o770, False), (0o702, False)):
        tmp_path.chmod(mode)
        assert scratch.is_own(str(tmp_path)) == is_own
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert not scratch.is_own(str(link)) and not scratch.is_own(str(tmp_path / "missing")) and not scratch.is_own("")


def test_what_killed_commands_have_left_is_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    alive, young, elsewhere, unknown, stale = (scratch.make() for _ in range(5))
    dead = subprocess.Popen(["sleep", "0"])
    born = scratch.birth(dead.pid) or "1"
    dead.wait()
    machine = scratch.machine()
    for folder, words in (
        (young, f"{machine} {dead.pid} {born}"),
        (elsewhere, f"another machine {dead.pid} {born}"),
        (stale, f"{machine} {dead.pid} {born}"),
    ):
        scratch.write(os.path.join(folder, "owner"), words)
    os.unlink(os.path.join(unknown, "owner"))
    for folder in (alive, elsewhere, unknown, stale):
        os.utime(folder, (0, 0))
    new = scratch.make()
    left = {str(tmp_path / name) for name in os.listdir(tmp_path)}
    assert left == {alive, young, elsewhere, unknown, new}


def test_a_folder_is_removed_after_a_removal_that_was_cut_short(tmp_path):
    folder = tmp_path / "folder"
    os.mkdir(f"{folder}~", 0o700)
    (tmp_path / "folder~" / "file").write_text("")
    scratch.remove(str(folder))
    assert not os.listdir(tmp_path)


def test_reports_of_children_through_a_link_are_not_read(tmp_path):
    (tmp_path / "elsewhere").write_text(json.dumps({"findings": []}))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.json").symlink_to(tmp_path / "elsewhere")
    scratch.write(str(folder / "2.json"), "{}")
    assert children.files(str(folder), ".json") == {"2": b"{}"}


def test_an_error_names_the_way_out(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(LocusError, match="TMPDIR"):
        scratch.make()
