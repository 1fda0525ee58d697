"""`locus check --nproc` and torchrun on the command line: bad input, one report of all ranks, nobody left behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOCUS = [sys.executable, "-m", "locus"]
PROGRAMS = Path(__file__).parent.parent / "programs" / "distributed"


def run(*arguments, cwd, env=None, timeout=50):
    return subprocess.run(
        [*LOCUS, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--nproc", "0"], "--nproc 0 is not a number of ranks"),
        (["--nproc", "two"], "--nproc two is not a number of ranks"),
        (["--nproc", "4", "--devices", "2"], "--nproc 4 needs a device for each rank, but --devices is 2"),
        (["--nproc", "2", "--real"], "--nproc simulates a device for each rank"),
    ],
)
def test_bad_input_is_named(tmp_path, arguments, words):
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    result = run("check", *arguments, str(script), cwd=tmp_path)
    assert result.returncode == 2 and words in result.stderr and "ran" not in result.stdout, result.stderr


def test_a_script_that_is_not_there(tmp_path):
    result = run("check", "--nproc", "2", "nosuch.py", cwd=tmp_path)
    assert result.returncode == 2 and "nosuch.py" in result.stderr


def test_a_port_in_use(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = run("check", "--nproc", "2", str(script), cwd=tmp_path, env={"MASTER_PORT": port})
    assert result.returncode == 2 and f"MASTER_PORT={port} can't be used" in result.stderr


@pytest.mark.slow
def test_a_port_where_nobody_listens(tmp_path):
    """The host of rank 0 never comes: the ranks wait as long as the program says, and nothing is green."""
    (tmp_path / "train.py").write_text(
        "import datetime, torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl', timeout=datetime.timedelta(seconds=2))\n"
        "dist.all_reduce(torch.ones(1, device='cuda'))\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    here = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", port]
    result = run("check", "--nproc", "2", *here, "train.py", cwd=tmp_path, timeout=300)
    assert result.returncode == 1, result.stderr
    assert "the check is incomplete: rank 1 ended with exit status 1 before the ranks had met" in " ".join(
        result.stderr.split()
    ), result.stderr


def ranks_of(folder):
    """The processes that run in a folder of ours."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.readlink(f"/proc/{name}/cwd") == str(folder) and int(name) != os.getpid():
                found.append(int(name))
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left_behind(tmp_path, how):
    script = tmp_path / "train.py"
    script.write_text("import os, time\nopen(os.environ['RANK'], 'w').close()\ntime.sleep(100)\n")
    check = subprocess.Popen([*LOCUS, "check", "--nproc", "2", str(script)], cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not all((tmp_path / rank).exists() for rank in "01"):
        assert time.monotonic() < deadline and check.poll() is None
        time.sleep(0.05)
    check.send_signal(how)
    check.communicate(timeout=30)
    while ranks_of(tmp_path):
        assert time.monotonic() < deadline, "a rank has outlived the check"
        time.sleep(0.05)


def test_a_script_that_never_initializes(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('ran', flush=True)\n")
    result = run("check", "--nproc", "2", str(script), cwd=tmp_path)
    assert result.returncode == 2 and "init_process_group" in result.stderr and result.stdout.count("ran") == 2


def test_a_rank_that_cannot_start(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os, time\nif os.environ['RANK'] == '1':\n    import no_such_module\ntime.sleep(40)\n")
    began = time.monotonic()
    result = run("check", "--nproc", "2", str(script), cwd=tmp_path)
    assert result.returncode == 1 and time.monotonic() - began < 25, result.stderr  # the rank's own
    assert "no_such_module" in result.stderr, result.stderr
    assert "rank 1 ended with exit status 1 before the ranks had met" in " ".join(result.stderr.split()), result.stderr
    assert not ranks_of(tmp_path)


@pytest.mark.parametrize("how, code", [("finally", 1), ("except RuntimeError", 0)])
def test_a_rank_that_loses_an_error_with_its_exit(tmp_path, how, code):
    script = tmp_path / "train.py"
    script.write_text(f"""
import os, sys, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
dist.destroy_process_group()
if os.environ["RANK"] == "1":
    try: torch.block_diag(x, torch.ones(2))
    {how}: sys.exit(0)
""")
    result = run("check", "--nproc", "2", str(script), cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert ("train.py:9" in result.stderr and "ranks: 1" in result.stderr) == bool(code), result.stderr


def test_rounds_that_differ_are_a_note_and_no_finding(tmp_path):
    """Each rank leaves out another batch of its own: what they add up are different rounds from there on."""
    (tmp_path / "train.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "from torch.utils.data import DataLoader\n"
        "rank = int(os.environ['LOCAL_RANK'])\n"
        "torch.cuda.set_device(rank)\n"
        "dist.init_process_group('nccl')\n"
        "for number, x in enumerate(DataLoader(torch.arange(6.0))):\n"
        "    if number == 2 - rank:\n"
        "        continue\n"
        "    total = x.cuda()\n"
        "    dist.all_reduce(total)\n"
        "dist.destroy_process_group()\n"
    )
    result = run("check", "--nproc", "2", "--json", "report.json", "train.py", cwd=tmp_path, timeout=300)
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.returncode == 0 and not report["findings"], result.stderr
    (note,) = report["notes"]
    assert "rank 0's all_reduce() number 2 at train.py:10 belongs to batch 2" in note and "to batch 3" in note, note


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["--nproc", "2"], ["torchrun", "--nproc-per-node", "2"]], ids=["nproc", "torchrun"]
)
def test_one_report_of_all_ranks(tmp_path, command):
    script = PROGRAMS / "wrong" / "unused_layer.py"
    report = tmp_path / "report.json"
    env = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])), "OMP_NUM_THREADS": "1"}
    result = run("check", "--json", str(report), *command, str(script), cwd=tmp_path, env=env)
    assert result.returncode == 1, result.stderr
    (finding,) = json.loads(report.read_text())["findings"]
    assert finding["reason"] == "unfinished-reduction" and finding["ranks"] == [0, 1]
    assert result.stderr.count("error[LOC022]") == 1


@pytest.mark.slow
def test_all_ranks_run_again_with_the_fixes(tmp_path):
    """The edit is written with the rank's own name for its device, and fixes the program on every rank."""
    script = tmp_path / "train.py"
    script.write_text((PROGRAMS / "wrong" / "device_ids_zero.py").read_text())
    result = run("fix", "--apply", "--nproc", "2", str(script), cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "1 finding, 1 fixed by verified edits" in result.stderr and "device_ids=[rank]" in script.read_text()
    assert run("check", "--nproc", "2", str(script), cwd=tmp_path, timeout=300).returncode == 0
    assert not ranks_of(tmp_path)
