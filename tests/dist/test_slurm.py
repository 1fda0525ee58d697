"""Programs that srun starts: with a Slurm of two nodes on this machine where it is installed, and with the variables
that srun sets."""

import contextlib
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest
from two_hosts import Ended

LOCUS = [sys.executable, "-m", "locus"]
TOOLS = ("slurmctld", "slurmd", "srun", "sinfo", "munged")

PROGRAM = """
import os, torch, torch.distributed as dist
told = os.environ
told.update(RANK=told["SLURM_PROCID"], WORLD_SIZE=told["SLURM_NTASKS"], LOCAL_RANK=told["SLURM_LOCALID"])
dist.init_process_group("nccl")
torch.cuda.set_device(int(told["LOCAL_RANK"]))
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
assert x[0].item() == dist.get_world_size() and torch.cuda.device_count() == 2
both = x + torch.ones(4)
if dist.get_rank() == 1:
    second = x * torch.arange(4)
dist.destroy_process_group()
"""

NODES = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/control.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/control.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
NodeName=node-a NodeHostname=node-a NodeAddr=127.0.0.1 Port={a} CPUs=2 State=UNKNOWN
NodeName=node-b NodeHostname=node-b NodeAddr=127.0.0.1 Port={b} CPUs=2 State=UNKNOWN
PartitionName=all Nodes=node-a,node-b Default=YES State=UP
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture
def slurm(tmp_path):
    """The environment in which srun finds two nodes, whose names their tasks have, too."""
    if os.geteuid() != 0 or not all(map(shutil.which, (*TOOLS, "unshare"))):
        pytest.skip("a Slurm needs root, slurmctld, slurmd, munge and unshare")
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    port, a, b = free_ports(3)
    host = socket.gethostname()
    settings = folder / "slurm.conf"
    settings.write_text(NODES.format(host=host, port=port, user=getpass.getuser(), folder=folder, a=a, b=b))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    environment = {**os.environ, "SLURM_CONF": str(settings)}
    started = []

    def start(*words):
        with open(folder / "said.log", "a") as said:
            started.append(subprocess.Popen(words, env=environment, stdout=said, stderr=said))

    files = {"key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed", "socket": "socket"}
    start("munged", "--foreground", "--force", *(f"--{name}={folder}/munge.{file}" for name, file in files.items()))
    start("slurmctld", "-D")
    for name in ("node-a", "node-b"):
        start("unshare", "--uts", "--kill-child", "--fork", "sh", "-c", f"hostname {name} && exec slurmd -D -N {name}")
    try:
        until = time.monotonic() + 120
        while True:
            nodes = subprocess.run(["sinfo", "-h", "-o", "%D %t"], env=environment, capture_output=True, text=True)
            if nodes.stdout.split() == ["2", "idle"]:
                break
            if time.monotonic() > until:
                pytest.skip(f"Slurm does not come up here: {nodes.stdout} {nodes.stderr}")
            time.sleep(0.5)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


@pytest.mark.slow
def test_srun_on_two_nodes(slurm, tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    port = str(free_ports(1)[0])
    words = ["srun", "--nodes", "2", "--ntasks-per-node", "2", "--overcommit", *LOCUS, "check", "--json", "report.json"]
    done = subprocess.run(
        [*words, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=900,
        env={**slurm, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert {finding["uses"][0]["line"]: finding["ranks"] for finding in report["findings"]} == {
        10: [0, 1, 2, 3],
        12: [1],
    }, done.stderr
    assert not report["notes"] and report["program"]["incomplete"] == ""
    hosts = report["program"]["hosts"]
    assert sorted(host["ranks"] for host in hosts) == [[0, 1], [2, 3]]
    assert sorted(host["name"] for host in hosts) == ["node-a", "node-b"]
    assert done.stderr.count("error[") == 2 and "the host of rank 0 makes the report of all" in done.stderr


def test_what_srun_tells_its_tasks(tmp_path):
    """Two tasks on one machine, each a check of its own: as many devices as there are tasks, and one report."""
    (tmp_path / "train.py").write_text(PROGRAM)
    port = str(free_ports(1)[0])
    told = {
        "SLURM_NTASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    tasks = [
        subprocess.Popen(
            [*LOCUS, "check", "--json", "report.json", "train.py"], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **told, "SLURM_PROCID": rank, "SLURM_LOCALID": rank},
        )
        for rank in "01"
    ]  # fmt: skip
    first, second = (Ended(task, timeout=600) for task in tasks)
    assert (first.code, second.code) == (1, 1), first.err + second.err
    report = json.loads((tmp_path / "report.json").read_text())
    lines = {finding["uses"][0]["line"]: finding["ranks"] for finding in report["findings"]}
    assert lines == {10: [0, 1], 12: [1]} and not report["notes"], first.err
    assert "error[" not in second.err
