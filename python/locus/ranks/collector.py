"""Takes in, on the host of rank 0, what the checks of other hosts have found, and what their ranks have called.

A small process of its own, started by rank 0 and no child of it: a rank that is killed takes nothing along. It ends
with the folder of the check. Whoever sends knows the secret, which the ranks tell each other over their group's store;
what is taken in are files of known names and limited size.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from locus import scratch
from locus.program import places

if TYPE_CHECKING:
    from locus.ranks.membership import Address

ENDING = ".part"
"""That of the files with what a host's check has found."""

_SECRET_VARIABLE = "LOCUS_SECRET"
_NAME = re.compile(r"[\w.-]{1,200}")
_MAX_HEADER = 1 << 20
_MAX_SIZE = 1 << 30
_SLOW = 30.0
"""Seconds after which a connection that brings nothing is given up."""
_LOOK = 0.25
TAKEN, DONE = b"taken\n", b"done\n"


def start(folder: str, is_local: bool) -> Address:
    """Starts the process; where it listens. `is_local`: nobody comes from another machine."""
    if is_local:
        listener = socket.create_server(("127.0.0.1", 0))
    elif socket.has_dualstack_ipv6():
        listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listener = socket.create_server(("", 0))
    secret = secrets.token_hex(16)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCUS_")}
    with listener, places.alone(True):
        port: int = listener.getsockname()[1]
        # The shell ends at once: the program, which may wait for its children, has none more.
        subprocess.run(
            [
                "/bin/sh",
                "-c",
                '"$@" &',
                "sh",
                sys.executable,
                "-m",
                "locus.ranks.collector",
                folder,
                str(listener.fileno()),
            ],
            pass_fds=[listener.fileno()],
            env={**kept, _SECRET_VARIABLE: secret},
            cwd="/",  # what lies where the program runs is not to be imported
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )
    return {"names": [socket.gethostname()], "port": port, "secret": secret}


# --- Those who send ---


def deliver(address: Address, name: str, data: bytes, wait: float) -> bool:
    """Sends what a host's check has found; whether it was taken. Stays until the report is made, or for `wait` seconds:
    a launcher that sees one rank fail may end the one that still writes."""
    with contextlib.suppress(OSError):
        with _connect(address) as line:
            _send(line, {"secret": address["secret"], "verb": "part", "name": name, "size": len(data)}, data)
            line.settimeout(_SLOW)
            reader = line.makefile("rb")
            if reader.readline(_MAX_HEADER) != TAKEN:
                return False
            with contextlib.suppress(OSError):
                line.settimeout(wait)
                reader.readline(_MAX_HEADER)
            return True
    return False


class Brought(NamedTuple):
    """What a rank of another host has called."""

    rank: int
    ahead: float
    """How far this host's clock is ahead of that one's."""
    data: bytes


def exchange(address: Address, job: str, rank: int, data: bytes, now: float) -> list[Brought]:
    """Tells what this rank has called, at `now` by its clock, and hears the same of the ranks of other machines that
    have told. An OSError where nobody answers."""
    packed = zlib.compress(data, 1)
    with _connect(address) as line:
        line.settimeout(_SLOW)
        header = {"verb": "calls", "name": job, "rank": rank, "machine": scratch.machine(), "now": now}
        _send(line, {**header, "secret": address["secret"], "size": len(packed)}, packed)
        reader = line.makefile("rb")
        found: list[Brought] = []
        for entry in _header(reader).get("calls", []):
            found.append(Brought(entry["rank"], entry["ahead"], _unpacked(_read(reader, entry["size"]))))
        return found


def _connect(address: Address) -> socket.socket:
    problem = OSError("there is no name to connect to")
    for name in dict.fromkeys(filter(None, address["names"])):
        try:
            return socket.create_connection((name, address["port"]), timeout=5.0)
        except OSError as error:
            problem = error
    raise problem


def _send(line: socket.socket, header: dict[str, object], data: bytes = b"") -> None:
    line.sendall(json.dumps(header).encode() + b"\n")
    line.sendall(data)


def _header(reader: Any) -> dict[str, Any]:
    """The line before what is sent; an OSError where it is none."""
    try:
        found = json.loads(reader.readline(_MAX_HEADER))
        if isinstance(found, dict):
            return found
    except ValueError:
        pass
    raise OSError("what was received is not Locus's")


def _read(reader: Any, size: int) -> bytes:
    if not isinstance(size, int) or not 0 <= size <= _MAX_SIZE:
        raise OSError("what was received is too large")
    data: bytes = reader.read(size)
    if len(data) != size:
        raise OSError("what was received is not whole")
    return data


def _unpacked(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, 1 << 22)  # a rank's calls are a file of fixed size, far smaller


# --- The process itself ---


class _Told(NamedTuple):
    machine: str
    skew: float
    """How far the clock here is ahead of the rank's."""
    packed: bytes


class _Collector:
    def __init__(self, folder: str, secret: str):
        self.folder, self.secret = folder, secret
        self.told: dict[tuple[str, int], _Told] = {}

    def serve(self, listener: socket.socket) -> None:
        """Until the folder has gone."""
        listener.settimeout(_LOOK)
        threads: list[threading.Thread] = []
        while os.path.isdir(self.folder):
            with contextlib.suppress(TimeoutError):
                line, _ = listener.accept()
                threads = [thread for thread in threads if thread.is_alive()]
                threads.append(threading.Thread(target=self._hear, args=(line,), daemon=True))
                threads[-1].start()
        for thread in threads:
            thread.join(_LOOK * 8)  # those that wait are told that all is done

    def _hear(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, zlib.error), line:
            line.settimeout(_SLOW)
            reader = line.makefile("rb")
            header = _header(reader)
            if not hmac.compare_digest(str(header["secret"]), self.secret) or not _NAME.fullmatch(header["name"]):
                return
            data = _read(reader, header["size"])
            if header["verb"] == "part":
                scratch.write(os.path.join(self.folder, f"{header['name']}{ENDING}"), data)
                line.sendall(TAKEN)
                while os.path.isdir(self.folder):
                    time.sleep(_LOOK)
                line.sendall(DONE)
            elif header["verb"] == "calls":
                self._answer(line, header, data)

    def _answer(self, line: socket.socket, header: dict[str, Any], data: bytes) -> None:
        job, rank, skew = header["name"], int(header["rank"]), time.monotonic() - float(header["now"])
        self.told[job, rank] = _Told(str(header["machine"]), skew, data)
        others = {
            number: told
            for (name, number), told in list(self.told.items())
            if name == job and told.machine != header["machine"]
        }
        rows = [
            {"rank": number, "ahead": told.skew - skew, "size": len(told.packed)} for number, told in others.items()
        ]
        _send(line, {"calls": rows}, b"".join(told.packed for told in others.values()))


def main(folder: str, descriptor: str) -> None:
    """What the new process does."""
    secret = os.environ.pop(_SECRET_VARIABLE)
    with socket.socket(fileno=int(descriptor)) as listener:
        _Collector(folder, secret).serve(listener)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
