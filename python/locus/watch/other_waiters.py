"""Who else in this process can wait for a card. The order of streams is followed by PyTorch's own calls: an extension,
or a library beside PyTorch, waits in ways that nobody sees. Where there is one, nothing is said of races on real cards.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from types import ModuleType

_WAITS = (b"cudaStream", b"cudaEvent", b"cudaDeviceSynchronize", b"cuStream", b"cuEvent", b"cuCtxSynchronize")
"""What a library has in its file that can wait for a card, or have one stream wait for another."""
_PACKAGES = ("torch", "torchvision", "torchaudio", "torchcodec", "triton", "functorch", "nvidia", "locus")
"""Their libraries wait by PyTorch's own means, or not at all."""
_NVIDIA = re.compile(r"lib(cu|nv|nccl)")
"""What PyTorch itself is linked with."""
_CALLS = re.compile(rb"\bcu(da)?(Stream|Event|Device|Ctx)\w+")
"""Calls of the driver or the runtime in a program's text."""

_harmless: set[str] = set()
"""Files that were looked at."""


def may_wait() -> bool:
    """Whether somebody beside PyTorch can wait for the card in this process."""
    return any(map(_waits, _libraries())) or any(map(_calls, list(sys.modules.values())))


def _libraries() -> set[str]:
    """The files of the libraries that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        files = {line.split(None, 5)[-1].rstrip("\n") for line in maps if "/" in line}
    return {file for file in files if ".so" in os.path.basename(file)}


def _waits(file: str) -> bool:
    if file in _harmless:
        return False
    folders = file.split("/")
    known = any(package in folders for package in _PACKAGES) or _NVIDIA.match(folders[-1]) is not None
    if not known and _has(file):
        return True
    _harmless.add(file)
    return False


def _has(file: str) -> bool:
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return any(text.find(word) >= 0 for word in _WAITS)
    except (OSError, ValueError):
        return False  # no file, or an empty one


def _calls(module: ModuleType) -> bool:
    """Whether a module that uses ctypes calls the driver or the runtime by itself."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or file in _harmless:
        return False
    if any(package in file.split("/") for package in _PACKAGES):
        return False
    held = list(vars(module).values())
    if not any(each is ctypes or isinstance(each, ctypes.CDLL) or each is ctypes.CDLL for each in held):
        return False
    try:
        with open(file, "rb") as opened:
            found = _CALLS.search(opened.read()) is not None
    except OSError:
        return True
    if not found:
        _harmless.add(file)
    return found
