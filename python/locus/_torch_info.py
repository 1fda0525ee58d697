"""Finds the PyTorch that Locus is built for or runs with, without importing it.

Standard library only: the package, the build backend and CMake (as a script) all use this one file.
"""

import sys

if __name__ == "__main__":  # as a script, this folder must not shadow the standard library
    sys.path.pop(0)

import dataclasses
import importlib.machinery
import os
import pathlib
import re
import sysconfig

MIN_VERSION = (2, 6)
"""The oldest PyTorch that Locus supports (major, minor)."""


@dataclasses.dataclass(frozen=True)
class TorchInfo:
    """What a build needs to know about one installed PyTorch."""

    folder: pathlib.Path
    """The package folder, `…/site-packages/torch`."""
    version: str
    """The full version, with its build: `2.13.0+cpu`."""

    @property
    def lib_dir(self) -> pathlib.Path:
        """The folder of libtorch_cpu.so: inside the package, or the system's (Debian)."""
        inside = self.folder / "lib"
        if (inside / "libtorch_cpu.so").exists():
            return inside
        multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
        for candidate in (pathlib.Path("/usr/lib") / multiarch, pathlib.Path("/usr/lib64"), pathlib.Path("/usr/lib")):
            if (candidate / "libtorch_cpu.so").exists():
                return candidate
        return inside

    @property
    def include_dirs(self) -> list[pathlib.Path]:
        """Header folders to add; empty where PyTorch's headers are not installed."""
        inside = self.folder / "include"
        if (inside / "ATen").is_dir():
            return [inside, inside / "torch" / "csrc" / "api" / "include"]
        system = pathlib.Path("/usr/include/torch/csrc/api/include")
        return [system] if system.is_dir() else []

    @property
    def cxx11_abi(self) -> bool:
        """Whether libc10 was built with the new std::string (true unless its symbols say otherwise)."""
        try:
            symbols = (self.lib_dir / "libc10.so").read_bytes()
        except OSError:
            return True
        return b"torchCheckFailEPKcS2_jRKSs" not in symbols

    @property
    def native_functions(self) -> pathlib.Path | None:
        """The operator list of this very version, where it ships with the package."""
        path = self.folder.parent / "torchgen" / "packaged" / "ATen" / "native" / "native_functions.yaml"
        return path if path.exists() else None


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version: `2.13.0+cpu` is (2, 13, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def read(folder: pathlib.Path) -> TorchInfo | None:
    """What is installed in `folder`, or None where that is no PyTorch."""
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return TorchInfo(folder.resolve(), match.group(1)) if match else None


def find_installed() -> TorchInfo | None:
    """The PyTorch that `import torch` would give here; does not import it."""
    spec = importlib.machinery.PathFinder.find_spec("torch")
    if spec is None or not spec.origin:
        return None
    return read(pathlib.Path(spec.origin).parent)


def find_for_build() -> TorchInfo | None:
    """The PyTorch to build for, also from inside an isolated build environment.

    In order: LOCUS_TORCH_DIR, this interpreter's own packages, the active virtual environment's, the base
    interpreter's, the system's.
    """
    explicit = os.environ.get("LOCUS_TORCH_DIR")
    if explicit:
        return read(pathlib.Path(explicit))
    for folder in _build_candidates():
        info = read(folder / "torch")
        if info:
            return info
    return find_installed()


def _build_candidates() -> list[pathlib.Path]:
    prefixes = [sys.prefix, os.environ.get("VIRTUAL_ENV"), sys.base_prefix]
    folders = []
    for prefix in dict.fromkeys(p for p in prefixes if p):
        variables = {"base": prefix, "platbase": prefix}
        scheme = "venv" if prefix != sys.base_prefix and "venv" in sysconfig.get_scheme_names() else None
        for name in ("platlib", "purelib"):
            path = sysconfig.get_path(name, scheme, variables) if scheme else sysconfig.get_path(name, vars=variables)
            folders.append(pathlib.Path(path))
        folders.append(pathlib.Path(prefix) / "lib" / "python3" / "dist-packages")
    folders.append(pathlib.Path("/usr/lib/python3/dist-packages"))
    return list(dict.fromkeys(folders))


def missing_message(executable: str) -> str:
    """What to tell a person who has no PyTorch here."""
    return (
        f"PyTorch is not installed in this environment ({executable}). Install it: pip install torch; "
        "then reinstall Locus so that its bridge is built for it: pip install --force-reinstall --no-deps locus "
        "(or `pip install --no-deps .` in the source tree)."
    )


def too_old_message(version: str) -> str:
    """What to tell a person whose PyTorch Locus cannot work with."""
    wanted = ".".join(str(part) for part in MIN_VERSION)
    return (
        f"PyTorch {version} is too old: Locus needs {wanted} or newer. Upgrade it: pip install --upgrade torch; "
        "then reinstall Locus so that its bridge is built for it."
    )


def bridge_name(version: str) -> str:
    """The file name of the bridge for that PyTorch and this interpreter."""
    return f"bridge.torch-{version}.{sys.implementation.cache_tag.replace('cpython-', 'cp')}.so"


def _print_for_cmake() -> int:
    info = find_for_build()
    if info is None:
        print(missing_message(sys.executable), file=sys.stderr)
        return 1
    if release(info.version)[:2] < MIN_VERSION:
        print(too_old_message(info.version), file=sys.stderr)
        return 1
    fields = {
        "DIR": info.folder,
        "VERSION": info.version,
        "LIB_DIR": info.lib_dir,
        "INCLUDE_DIRS": ";".join(str(path) for path in info.include_dirs),
        "CXX11_ABI": int(info.cxx11_abi),
        "NATIVE_FUNCTIONS": info.native_functions or "",
        "BRIDGE_NAME": bridge_name(info.version),
    }
    for name, value in fields.items():
        print(f'set(LOCUS_TORCH_{name} "{value}")')
    return 0


if __name__ == "__main__":
    sys.exit(_print_for_cmake())
