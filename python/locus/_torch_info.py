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
import site
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
    """The PyTorch to build for, also from inside an isolated build environment: the first of `build_folders()` that has
    one. LOCUS_TORCH_DIR, where it is set, is the only place."""
    explicit = os.environ.get("LOCUS_TORCH_DIR")
    if explicit:
        return read(pathlib.Path(explicit))
    for folder in build_folders():
        info = read(folder / "torch")
        if info:
            return info
    return find_installed()


def build_folders() -> list[pathlib.Path]:
    """Where `find_for_build` looks, in order.

    An isolated build has an interpreter, and variables, of its own. What the installer was told is in its command line
    and in the variables that it was started with: where it installs to, the interpreter, PYTHONPATH, the virtual
    environment. Behind that: this interpreter's packages, its user's, those of the base interpreter, the system's.
    """
    folders: list[pathlib.Path] = []
    prefixes: list[str] = []
    for installer in [*_ancestors(), _Installer([], dict(os.environ))]:
        folders += installer.folders()
        prefixes += installer.prefixes()
    for prefix in dict.fromkeys([*prefixes, sys.prefix, sys.base_prefix]):
        folders += _packages_of(prefix)
    with_user = site.getusersitepackages() if site.ENABLE_USER_SITE is not False or _in_isolation() else None
    if with_user:
        folders.append(pathlib.Path(with_user))
    folders.append(pathlib.Path("/usr/lib/python3/dist-packages"))
    return list(dict.fromkeys(folders))


def _packages_of(prefix: str) -> list[pathlib.Path]:
    variables = {"base": prefix, "platbase": prefix}
    scheme = "venv" if prefix != sys.base_prefix and "venv" in sysconfig.get_scheme_names() else None
    paths = [
        sysconfig.get_path(name, scheme, variables) if scheme else sysconfig.get_path(name, vars=variables)
        for name in ("platlib", "purelib")
    ]
    debian = os.path.join(prefix, "lib", "python3", "dist-packages")
    return [pathlib.Path(path) for path in (*paths, debian)]


@dataclasses.dataclass(frozen=True)
class _Installer:
    """A process above this one, or this one itself: how it was started."""

    command: list[str]
    variables: dict[str, str]

    def option(self, *names: str) -> str:
        """The value of `--name VALUE` or `--name=VALUE`; "" where it was not given."""
        for at, word in enumerate(self.command):
            name, _, value = word.partition("=")
            if name in names:
                return value or (self.command[at + 1] if at + 1 < len(self.command) else "")
        return ""

    def folders(self) -> list[pathlib.Path]:
        given = [self.option("--target", "-t"), *self.variables.get("PYTHONPATH", "").split(os.pathsep)]
        return [pathlib.Path(folder).absolute() for folder in given if folder]

    def prefixes(self) -> list[str]:
        """Prefixes that it installs into, or runs in."""
        python = self.option("--python", "-p")
        runs = os.path.dirname(os.path.dirname(os.path.abspath(python))) if os.sep in python else python
        named = [self.option("--prefix"), runs, self.variables.get("VIRTUAL_ENV", "")]
        return [prefix for prefix in named if prefix and os.path.isdir(prefix)]


def _ancestors() -> list[_Installer]:
    """The installers above this process, the nearest first. Only Linux tells."""
    found: list[_Installer] = []
    number = os.getppid()
    while number > 1 and len(found) < 4:
        try:
            folder = pathlib.Path("/proc") / str(number)
            words = os.fsdecode((folder / "cmdline").read_bytes()).rstrip("\0").split("\0")
            pairs = os.fsdecode((folder / "environ").read_bytes()).split("\0")
            number = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        if any(re.fullmatch(r"(.*/)?(pip|uv|build|pipx)[\d.]*(\.\w+)?", word) for word in words[:4]):
            found.append(_Installer(words, dict(pair.split("=", 1) for pair in pairs if "=" in pair)))
    return found


def _in_isolation() -> bool:
    """Whether the installer has hidden the user's packages from this process, and only from this process."""
    return any("PYTHONNOUSERSITE" not in installer.variables for installer in _ancestors())


def wrong_system_message() -> str:
    """What to tell a person whose system Locus does not run on; "" where it does."""
    if sys.platform == "linux":
        return ""
    name = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
    return f"Locus runs on Linux; this is {name}. Use a Linux machine, a container or WSL"


def missing_message(executable: str) -> str:
    """What to tell a person who has no PyTorch here."""
    return f"PyTorch is not installed in this environment ({executable}). Install it: pip install torch"


def not_found_message() -> str:
    """What to tell a person for whom Locus is being built, and no PyTorch was found."""
    looked = os.environ.get("LOCUS_TORCH_DIR") or ", ".join(str(folder) for folder in build_folders())
    return (
        "Locus's C++ part is built for the PyTorch that it will run with, and no PyTorch was found. "
        f"Looked at: {looked}. Install it first: pip install torch; or say where it is: LOCUS_TORCH_DIR=…/torch"
    )


def too_old_message(version: str) -> str:
    """What to tell a person whose PyTorch Locus cannot work with."""
    wanted = ".".join(str(part) for part in MIN_VERSION)
    return f"PyTorch {version} is too old: Locus needs {wanted} or newer. Upgrade it: pip install --upgrade torch"


_SHARED_BUILD = re.compile(r"(\d+\.\d+\.\d+)(?:\+(?:cpu|cu\d+))?")
"""A released version: its CPU build and its CUDA builds have the same headers, and share one bridge."""


def bridge_name(info: TorchInfo) -> str:
    """The file name of the bridge for that PyTorch and this interpreter."""
    shared = _SHARED_BUILD.fullmatch(info.version)
    version = shared[1] if shared else info.version
    # Some builds up to 2.6 have the old std::string.
    strings = "" if release(info.version) >= (2, 7) or info.cxx11_abi else "-pre-cxx11"
    return f"bridge.torch-{version}{strings}.{python_tag()}.so"


def python_tag() -> str:
    """This interpreter, as in the names of wheels: cp311."""
    return (sys.implementation.cache_tag or "").replace("cpython-", "cp")


def _print_for_cmake() -> int:
    info = find_for_build()
    if info is None:
        print(not_found_message(), file=sys.stderr)
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
        "BRIDGE_NAME": bridge_name(info),
    }
    for name, value in fields.items():
        print(f'set(LOCUS_TORCH_{name} "{value}")')
    return 0


if __name__ == "__main__":
    sys.exit(_print_for_cmake())
