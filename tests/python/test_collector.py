"""What hosts send each other: who may, what is kept, and what becomes of it when it is broken."""

import io
import json
import os
import socket
import threading
import time
import zipfile
import zlib

import pytest
from locus.process import parts
from locus.ranks import collector

from locus import scratch


@pytest.fixture
def served():
    """A collector in a thread, and its folder; removing the folder ends it."""
    folder = scratch.make()
    listener = socket.create_server(("127.0.0.1", 0))
    serving = collector._Collector(folder, "secret")
    thread = threading.Thread(target=serving.serve, args=(listener,), daemon=True)
    thread.start()
    yield {"names": ["127.0.0.1"], "port": listener.getsockname()[1], "secret": "secret"}, folder
    scratch.remove(folder)
    thread.join(20)
    assert not thread.is_alive()
    listener.close()


def test_a_part_is_taken_and_the_sender_stays_until_the_end(served):
    address, folder = served
    answers = []
    sender = threading.Thread(target=lambda: answers.append(collector.deliver(address, "node-b-rank-4", b"data", 60)))
    sender.start()
    deadline = time.monotonic() + 30
    while "node-b-rank-4.part" not in os.listdir(folder):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert sender.is_alive() and scratch.read(f"{folder}/node-b-rank-4.part") == b"data"
    scratch.remove(folder)
    sender.join(30)
    assert answers == [True]


def test_strangers_are_not_heard(served):
    address, folder = served
    assert not collector.deliver({**address, "secret": "guess"}, "name", b"data", 1)
    assert not collector.deliver(address, "../name", b"data", 1)
    for words in (
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"secret": "secret", "name": "x", "verb": "part", "size": -1}\n',
        b"[]\n",
    ):
        with socket.create_connection(("127.0.0.1", address["port"])) as line:
            line.sendall(words)
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100) == b""
    assert [name for name in os.listdir(folder) if name.endswith(".part")] == []
    assert collector.deliver(address, "name", b"data", 0.1), "and it still serves"


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not collector.deliver({"names": ["127.0.0.1"], "port": port, "secret": ""}, "name", b"", 1)


def test_calls_go_to_other_machines_only(served, monkeypatch):
    address, _ = served

    def tell(machine, rank, now):
        monkeypatch.setattr(scratch, "machine", lambda: machine)
        found = collector.exchange(address, "job", rank, bytes([rank]) * 10, now)
        return {each.rank: (each.data, round(each.ahead)) for each in found}

    assert tell("one", 0, 1000.0) == {}
    assert tell("one", 1, 1000.0) == {}
    assert tell("two", 2, 250.0) == {0: (b"\0" * 10, -750), 1: (b"\1" * 10, -750)}
    assert tell("one", 0, 1000.0) == {2: (b"\2" * 10, 750)}


def manifest(**facts):
    known = {
        "host": "node-b", "job": "7-aa-1", "world": 4, "ranks": [2, 3], "hosts": {}, "codes": {}, "exit": 0,
        "ended_by": "", "script": "train.py", "argv": [], "seconds": 1.0, "written": 5.0,
    }  # fmt: skip
    return parts.manifest_of(**{**known, **facts})


def test_a_part_goes_from_folder_to_folder(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir(), here.mkdir()
    for name in ("12.json", "12.passes", "7-aa-1.12.calls", "7-aa-1.host-0.calls", "owner", "12.trace"):
        (there / name).write_text(name)
    part = parts.read(parts.pack(str(there), manifest(), {"13.json": b"own"}))
    assert part.manifest["ranks"] == [2, 3] and parts.name_of(part.manifest) == "node-b-rank-2"
    parts.unpack(part, str(here), "part0")
    names = {"part0-12.json", "part0-12.passes", "7-aa-1.part0-12.calls", "part0-13.json"}
    assert {path.name for path in here.iterdir()} == names and (here / "part0-13.json").read_bytes() == b"own"


def test_what_is_no_part(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"part": 99}))
    for data in (b"", b"PK", packed.getvalue(), zlib.compress(b"x")):
        with pytest.raises(ValueError):
            parts.read(data)


def test_names_in_a_part_lead_nowhere_else(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest()))
        for name in ("../1.json", "/tmp/1.json", "a/1.json", "x.1.json.py", "1.json"):
            archive.writestr(name, name)
    parts.unpack(parts.read(packed.getvalue()), str(tmp_path), "part0")
    assert [path.name for path in tmp_path.iterdir()] == ["part0-1.json"]


def test_the_parts_of_one_run(tmp_path):
    for host, job, ranks, written in (
        ("a", "old", [0], 1),
        ("a", "new", [0], 2),
        ("b", "new", [1], 3),
        ("c", "old", [1], 1),
    ):
        part = manifest(host=host, job=job, ranks=ranks, written=written)
        parts.write(str(tmp_path), parts.Part(part, parts.pack("/nowhere", part, {})))
    found = parts.Watch(str(tmp_path), parts.ENDING).look()
    assert [part.manifest["host"] for part in parts.of_job(found, "new")] == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a-rank-0.part.zip",
        "b-rank-1.part.zip",
        "c-rank-1.part.zip",
    ]
