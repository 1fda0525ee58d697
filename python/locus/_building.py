"""Builds the bridge for a PyTorch that the installed wheel has none for: once, into the user's cache.

The wheel brings the sources along (`_source`). Standard library only, and imported only when it is needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, which is told in words, before anything is built, that it is not supported
    fcntl = None  # type: ignore[assignment]

from locus import _torch_info
from locus.errors import SetupError

SOURCES = pathlib.Path(__file__).parent / "_source"
"""The C++ sources, as installed."""
SWITCH = "LOCUS_BUILD"
"""A variable: 0 means that nothing is built at run time."""


def cache_folder(sources: pathlib.Path = SOURCES) -> pathlib.Path:
    """Where bridges are kept that were built from these sources."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(home) / "torch-locus" / _stamp(sources)


def _stamp(sources: pathlib.Path) -> str:
    """Another version of Locus builds anew, and so does another state of its sources."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.suffix in (".cc", ".h", ".inc", ".def", ".txt")):
        digest.update(str(path.relative_to(sources)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def missing(info: _torch_info.TorchInfo, sources: pathlib.Path = SOURCES) -> str:
    """Why nothing can be built here, with the way out; "" where it can."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 forbids to build one. Unset it"
    if wrong_system := _torch_info.wrong_system_message():
        return wrong_system
    if not (sources / "CMakeLists.txt").is_file():
        return "this installation has no sources to build one from. Install Locus from a wheel or a source archive"
    if not info.include_dirs or info.native_functions is None:
        return f"PyTorch in {info.folder} comes without its headers. Install PyTorch by pip, or its development package"
    absent = [name for name, found in _tools().items() if not found]
    if not absent:
        return ""
    ways = list(dict.fromkeys(_WAYS[name] for name in absent))
    return f"building one needs {listed(absent)}. Install: {listed(ways)}"


def listed(names: list[str]) -> str:
    """One and another, as a sentence has them."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


_WAYS = {
    "a C++ compiler": "g++",
    "CMake": "cmake (pip install cmake)",
    "Ninja or make": "ninja (pip install ninja)",
    "Python's headers": "the development package of Python (python3-dev)",
}


def _tools() -> dict[str, bool]:
    compiler = os.environ.get("CXX") or "c++"
    return {
        "a C++ compiler": bool(shutil.which(compiler) or shutil.which("g++") or shutil.which("clang++")),
        "CMake": bool(shutil.which("cmake")),
        "Ninja or make": bool(shutil.which("ninja") or shutil.which("make")),
        "Python's headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
    }


def build(info: _torch_info.TorchInfo, sources: pathlib.Path = SOURCES) -> pathlib.Path:
    """The bridge for that PyTorch, built if it is not in the cache yet; a SetupError says what went wrong."""
    folder = cache_folder(sources)
    path = folder / _torch_info.bridge_name(info)
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder / ".lock"):
            if not path.exists():  # another process was faster
                _build(info, sources, path)
    except OSError as error:
        raise SetupError(
            f"Locus's bridge for PyTorch {info.version} can't be built: {error.strerror or error}: "
            f"{error.filename or folder}. Set XDG_CACHE_HOME to a folder that can be written."
        ) from None
    return path


@contextlib.contextmanager
def _only_one(lock: pathlib.Path) -> Iterator[None]:
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(info: _torch_info.TorchInfo, sources: pathlib.Path, path: pathlib.Path) -> None:
    _say(f"building the bridge for PyTorch {info.version}, once; this takes some minutes …")
    log = path.with_suffix(".log")
    with tempfile.TemporaryDirectory(prefix="torch-locus-") as work:
        make = ["-G", "Ninja"] if shutil.which("ninja") else []
        steps = [
            ["cmake", "-S", str(sources), "-B", work, *make, "-DLOCUS_BUILD_BRIDGE=ON", "-DCMAKE_BUILD_TYPE=Release",
             f"-DLOCUS_TORCH_DIR={info.folder}", f"-DPython_EXECUTABLE={sys.executable}"],
            ["cmake", "--build", work, "--parallel", str(len(os.sched_getaffinity(0))), "--target", "locus_bridge"],
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCUS_")}
        with open(log, "wb") as output:
            for step in steps:
                done = subprocess.run(step, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)
                if done.returncode != 0:
                    raise SetupError(
                        f"Locus's bridge for PyTorch {info.version} could not be built; {log} says why. "
                        "Use a PyTorch that Locus brings a bridge for, or report this."
                    )
        built = pathlib.Path(work) / "locus" / "bridge" / path.name
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as part:
            part.write(built.read_bytes())
        os.chmod(part.name, 0o755)
        os.replace(part.name, path)
    _say(f"built: {path}")


def _say(words: str) -> None:
    sys.stderr.write(f"locus: {words}\n")
    sys.stderr.flush()
