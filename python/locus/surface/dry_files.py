"""Files in a dry run: what has no values is a hole in the file, and takes no room on the disk.

Anything else is written: counters, states of generators, small tables. What is read from a hole is zeros.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import threading
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch

from locus.after_import import after_import

if TYPE_CHECKING:
    from locus._bridge import Bridge

_PASSED_THROUGH = 1 << 20
"""Bytes; larger files are mapped instead of read, and written with holes by safetensors."""


def install(bridge: Bridge) -> None:
    """Has torch.save(), torch.load() and safetensors pass large tensors through without their bytes."""
    _save_without_bytes(bridge)
    _load_without_bytes()
    after_import("safetensors.torch", functools.partial(_save_safetensors, bridge))


def _save_without_bytes(bridge: Bridge) -> None:
    """torch.save(): a storage whose values are unknown is a hole in the file. What is known is written: counters,
    states of generators, small tables."""
    plain: Callable[..., None] | None = getattr(torch.serialization, "_save", None)
    if plain is None or not hasattr(torch._C.PyTorchFileWriter, "write_record_metadata"):
        return
    _leave_on_device(torch.UntypedStorage)

    @functools.wraps(plain)
    def save(
        obj: object, zip_file: _Records, pickle_module: types.ModuleType, pickle_protocol: int, *arguments: object
    ) -> None:
        if pickle_module is not pickle:  # what another pickler makes of an object is its own
            return plain(obj, zip_file, pickle_module, pickle_protocol, *arguments)
        holes: set[int] = set()

        class Pickler(pickle.Pickler):
            """Notes the storages of unknown tensors on their way into the file."""

            def reducer_override(self, value: object) -> Any:
                if isinstance(value, torch.Tensor) and _is_hole(bridge, value):
                    holes.add(value.untyped_storage()._cdata)
                return NotImplemented

        _saving.holes, before = holes, getattr(_saving, "holes", None)
        try:
            names = types.SimpleNamespace(Pickler=Pickler)
            return plain(obj, _Writer(zip_file, holes), names, pickle_protocol, *arguments)
        finally:
            _saving.holes = before

    torch.serialization._save = save


_saving = threading.local()
"""The storages that are holes in the file which this thread writes."""


def _is_hole(bridge: Bridge, tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not bridge.is_known(tensor) and not tensor.is_meta


def _leave_on_device(kind: type[torch.UntypedStorage]) -> None:
    plain: Callable[..., torch.UntypedStorage] = kind.cpu

    def cpu(self: torch.UntypedStorage) -> torch.UntypedStorage:
        holes = getattr(_saving, "holes", None)
        return self if holes and self._cdata in holes else plain(self)

    setattr(kind, "cpu", functools.wraps(plain)(cpu))  # noqa: B010  (a method, to mypy)


class _Records(Protocol):
    """What PyTorch writes a file with."""

    def write_record(self, name: str, data: object, size: int) -> None: ...

    def write_record_metadata(self, name: str, size: int) -> None: ...


class _Writer:
    """The writer of a file, which leaves holes where there are no bytes."""

    def __init__(self, writer: _Records, holes: set[int]):
        self._writer, self._holes = writer, holes

    def write_record(self, name: str, data: object, size: int) -> None:
        if isinstance(data, torch.UntypedStorage) and data._cdata in self._holes:
            self._writer.write_record_metadata(name, size)
        else:
            self._writer.write_record(name, data, size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)


def _load_without_bytes() -> None:
    """torch.load(): a file is mapped, not read, where that is possible."""
    plain = torch.load

    @functools.wraps(plain)
    def load(f: object, *arguments: object, **named: object) -> object:
        if isinstance(f, (str, os.PathLike)) and "mmap" not in named and _is_large_archive(f):
            named["mmap"] = True
        return plain(f, *arguments, **named)  # type: ignore[arg-type]

    torch.load = load


def _is_large_archive(path: str | os.PathLike[str]) -> bool:
    try:
        name = os.fspath(path)
        with open(name, "rb") as file:
            return file.read(4) == b"PK\x03\x04" and os.path.getsize(name) > _PASSED_THROUGH
    except OSError:
        return False


def _save_safetensors(bridge: Bridge, package: types.ModuleType) -> None:
    """safetensors writes from memory, byte by byte."""
    plain: Callable[..., None] = package.save_file

    @functools.wraps(plain)
    def save_file(
        tensors: dict[str, torch.Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
    ) -> None:
        if _has_large_holes(bridge, tensors) and _is_accepted(package, tensors):
            names = {kind: name for name, kind in package._TYPES.items()}
            _write_safetensors(bridge, package.save, names, tensors, filename, metadata)
        else:
            plain(tensors, filename, metadata)

    package.save_file = save_file  # type: ignore[attr-defined]


def _has_large_holes(bridge: Bridge, tensors: object) -> bool:
    values = tensors.values() if isinstance(tensors, dict) else ()
    return sum(t.nbytes for t in values if isinstance(t, torch.Tensor) and _is_hole(bridge, t)) > _PASSED_THROUGH


def _is_accepted(package: types.ModuleType, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether safetensors takes them; what it refuses, it refuses itself."""
    known = set(package._TYPES.values())
    return all(
        isinstance(t, torch.Tensor) and t.layout is torch.strided and t.is_contiguous() and t.dtype in known
        for t in tensors.values()
    ) and all(len(names) < 2 for names in package._find_shared_tensors(tensors))


def _write_safetensors(
    bridge: Bridge,
    as_bytes: Callable[[dict[str, torch.Tensor]], bytes],
    names: Mapping[torch.dtype, str],
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None,
) -> None:
    """The file that safetensors would write: the length of the header, the header, and the tensors one by one."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    order = sorted(tensors.items(), key=lambda each: (-each[1].element_size(), each[0]))
    end = 0
    for name, t in order:
        offsets = [end, end + t.nbytes]
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": offsets}
        end += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(filename, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, t in order:
            if _is_hole(bridge, t):
                file.seek(t.nbytes, os.SEEK_CUR)
                continue
            whole = as_bytes({"t": t})
            file.write(whole[8 + int.from_bytes(whole[:8], "little") :])
        file.truncate(8 + len(text) + end)
