"""Two hosts on one machine: network namespaces with a cable between them, and for each program that is started there a
name and process numbers of its own. Needs root and `ip`."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import pytest

ADDRESSES = {"a": "10.83.0.1", "b": "10.83.0.2"}
PORT = "29517"


class Hosts:
    """Hosts "a" and "b", whose names are node-a and node-b."""

    def __init__(self):
        self.mark = f"locus{os.getpid()}"
        self.started = []

    def space(self, host):
        return f"{self.mark}{host}"

    def connect(self):
        for host in "ab":
            _ip("netns", "add", self.space(host))
        cable = ["link", "add", "cable", "netns", self.space("a"), "type", "veth", "peer", "name", "cable"]
        _ip(*cable, "netns", self.space("b"))
        for host, address in ADDRESSES.items():
            _ip("-n", self.space(host), "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _ip("-n", self.space(host), "link", "set", device, "up")

    def disconnect(self):
        for host in "ab":
            self.kill(host)
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self.space(host))

    def command(self, host, *words):
        around = ["unshare", "--uts", "--pid", "--kill-child", "--fork", "--mount-proc"]
        named = ["sh", "-c", f'hostname node-{host} && exec "$@"', "sh"]
        return ["ip", "netns", "exec", self.space(host), *around, *named, *words]

    def start(self, host, *words, cwd, **variables):
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "cable", "OMP_NUM_THREADS": "1", **variables}
        process = subprocess.Popen(
            self.command(host, *words), cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        return process

    def check(self, host, *options, cwd, **variables):
        """Rank 0 on host a, or rank 1 on host b, as srun starts them: each is a check of its own."""
        told = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": ADDRESSES["a"], "MASTER_PORT": PORT}
        rank = {"a": "0", "b": "1"}[host]
        words = [sys.executable, "-m", "locus", "check", *options, "train.py"]
        return self.start(host, *words, cwd=cwd, RANK=rank, **told, **variables)

    def kill(self, host):
        """A host goes: all its processes at once, without a word."""
        found = subprocess.run(["ip", "netns", "pids", self.space(host)], capture_output=True, text=True)
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def connected():
    """Both hosts; skips, with the reason, where they can't be had."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("two hosts need root, ip (iproute2) and unshare (util-linux)")
    hosts = Hosts()
    try:
        try:
            hosts.connect()
            subprocess.run(hosts.command("a", "true"), check=True, capture_output=True, text=True, timeout=30)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces can't be made here: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.disconnect()


class Ended:
    """How a program on a host has ended."""

    def __init__(self, process, timeout=900):
        self.out, self.err = process.communicate(timeout=timeout)
        self.code = process.returncode
        self.words = " ".join(self.err.split())


def wait_for(*paths, timeout=900):
    deadline = time.monotonic() + timeout
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, "the ranks have not met"
        time.sleep(0.1)
