"""A part of a report: what the check of one host has gathered in its folder, in one file, for whoever makes the report
of all hosts. A zip archive of files of known names, and a manifest that says whose they are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
from typing import NamedTuple, TypedDict

from locus import scratch
from locus.errors import LocusError, UsageError

ENDING = ".part.zip"
"""That of the files in a folder that hosts share."""

_VERSION = 1
_MANIFEST = "manifest.json"
_FILE = re.compile(r"([\w-]+\.)?(\d+)\.(json|passes|calls|ran|started|counters|member)")
"""The number is that of a process; before it stands a job's name where the file is about that."""
_MAX_SIZE = 4 << 30


class Manifest(TypedDict):
    """Whose part it is."""

    part: int
    host: str
    job: str
    """Of the ranks that have met; empty: these have not met the others."""
    world: int
    ranks: list[int]
    hosts: dict[str, str]
    """By rank, what rank 0 knows of the others."""
    codes: dict[str, int]
    """By rank, what it ended with, where that is known."""
    exit: int
    ended_by: str
    script: str
    argv: list[str]
    seconds: float
    written: float
    """Seconds since 1970, by the host's own clock."""


class Part(NamedTuple):
    """One that was read."""

    manifest: Manifest
    data: bytes


def name_of(manifest: Manifest) -> str:
    """The same for each run of the same ranks on the same host: a new part takes the old one's place."""
    host = re.sub(r"[^\w.-]", "_", manifest["host"])[:100] or "host"
    return f"{host}-rank-{manifest['ranks'][0]}" if manifest["ranks"] else f"{host}-no-rank"


def pack(folder: str, manifest: Manifest, more: dict[str, bytes]) -> bytes:
    """The files of a check's folder and `more`, as one."""
    files = dict(more)
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else []):
        if _FILE.fullmatch(name) and name not in files:
            with contextlib.suppress(OSError):
                files[name] = scratch.read(os.path.join(folder, name))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest))
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def read(data: bytes) -> Part:
    """A ValueError where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
    except (zipfile.BadZipFile, KeyError, RuntimeError, OSError, EOFError) as error:
        raise ValueError(str(error)) from None
    wanted = Manifest.__annotations__
    if not isinstance(manifest, dict) or manifest.get("part") != _VERSION or not all(key in manifest for key in wanted):
        raise ValueError("its manifest is not one of this Locus")
    return Part(manifest, data)  # type: ignore[arg-type]  # looked at just now


def unpack(part: Part, folder: str, label: str) -> None:
    """Puts the files of a part into a check's folder, under names that no process of this host has."""
    with zipfile.ZipFile(io.BytesIO(part.data)) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename != _MANIFEST]
        if sum(entry.file_size for entry in entries) > _MAX_SIZE:
            raise ValueError("it is too large")
        for entry in entries:
            match = _FILE.fullmatch(entry.filename)
            if match is not None:
                job, process, kind = match.groups()
                path = os.path.join(folder, f"{job or ''}{label}-{process}.{kind}")
                try:
                    scratch.write(path, archive.read(entry))
                except zipfile.BadZipFile as error:
                    raise ValueError(str(error)) from None


def check_folder(option: str, folder: str) -> None:
    """Makes a folder for parts where there is none; a UsageError, now and not after the run, where it can't be used."""
    if not folder:
        raise UsageError(f"{option} needs the name of a folder.")
    probe = os.path.join(folder, f".locus-{os.getpid()}-{os.uname().nodename[:64]}")
    try:
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
    except OSError as error:
        raise UsageError(
            f"{option} {folder} can't be written: {error.strerror}. Give a folder that all hosts can write to."
        ) from None


def write(folder: str, part: Part) -> None:
    """Puts a part into a folder that hosts share: nobody sees half of it."""
    path = os.path.join(folder, name_of(part.manifest) + ENDING)
    try:
        scratch.write(path, part.data)
    except OSError as error:
        raise LocusError(f"{path} could not be written: {error.strerror}") from None


class Watch:
    """Parts as they come into a folder."""

    def __init__(self, folder: str, ending: str):
        self._folder, self._ending = folder, ending
        self._seen: dict[str, tuple[int, int]] = {}
        self._parts: dict[str, Part] = {}
        self.strangers: list[str] = []
        """Files that only look like parts."""

    def look(self) -> list[Part]:
        """All that are there now."""
        names = [name for name in sorted(os.listdir(self._folder)) if name.endswith(self._ending)]
        for name in names:
            path = os.path.join(self._folder, name)
            try:
                found = os.lstat(path)
                if self._seen.get(name) != (found.st_mtime_ns, found.st_ino):
                    self._seen[name] = (found.st_mtime_ns, found.st_ino)
                    self._parts[name] = read(scratch.read(path))
            except (OSError, ValueError):
                self._parts.pop(name, None)
                self.strangers.append(name)
        return [self._parts[name] for name in names if name in self._parts]


def of_job(parts: list[Part], job: str) -> list[Part]:
    """Those of one job, each rank once."""
    found: list[Part] = []
    for part in sorted(parts, key=lambda each: each.manifest["written"], reverse=True):
        taken = {rank for each in found for rank in each.manifest["ranks"]}
        if part.manifest["job"] == job and not taken.intersection(part.manifest["ranks"]):
            found.append(part)
    return sorted(found, key=lambda each: each.manifest["ranks"][:1])


def manifest_of(**facts: object) -> Manifest:
    """A manifest of this version."""
    return {"part": _VERSION, **facts}  # type: ignore[typeddict-item]  # checked when it is read
