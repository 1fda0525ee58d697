#!/usr/bin/env python3
"""Makes the wheels of tools/wheels.toml into dist/: one for each Python, with a bridge for each PyTorch.

    make_wheels.py [--pythons 3.11,3.12] [--torch 2.13.0,2.14.1] [--all] [--out dist]
    make_wheels.py --same TORCH TORCH        whether two unpacked builds of PyTorch may share a bridge: the same headers

PyTorch comes from pip's own sources, or from folders in LOCUS_TORCH_DIRS (…/torch, separated by colons). An interpreter
or a PyTorch that can't be had is left out, and said. The tag of the platform, and with it the oldest glibc, is
auditwheel's, where that is installed. Needs: g++, cmake, ninja, nlohmann-json, fmt.
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


def table(name: str) -> dict[str, list[str]]:
    """The lists of wheels.toml: all of it, or a part. Read without tomllib, which Python 3.10 has not."""
    text = (ROOT / "tools" / "wheels.toml").read_text(encoding="utf-8")
    whole, _, everyday = text.partition("[everyday]")
    lists = re.findall(r"^(\w+) = \[(.*?)\]", everyday if name == "everyday" else whole, re.MULTILINE | re.DOTALL)
    return {key: re.findall(r'"([^"]+)"', values) for key, values in lists}


def interpreter(version: str) -> str | None:
    """Its path; None where there is none."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return sys.executable if version == here else shutil.which(f"python{version}")


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


def build_bridge(python: str, torch: pathlib.Path) -> pathlib.Path | None:
    """The bridge for that interpreter and PyTorch; None where the build failed."""
    info = _torch_info.read(torch)
    assert info is not None
    show = "import sys; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')"
    tag = subprocess.check_output([python, "-c", show], text=True).strip()
    name = _torch_info.bridge_name(info).replace(_torch_info.python_tag(), tag)
    folder = ROOT / "build" / f"wheel-torch{info.version}-{tag}"
    # PyTorch's own libraries are in the process before the bridge: it needs no path to them, and none of this machine.
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DLOCUS_BUILD_BRIDGE=ON",
                 "-DCMAKE_BUILD_TYPE=Release", f"-DLOCUS_TORCH_DIR={torch}", f"-DPython_EXECUTABLE={python}",
                 "-DCMAKE_SKIP_RPATH=ON"]  # fmt: skip
    build = ["cmake", "--build", str(folder), "--target", "locus_bridge", "--parallel", str(os.environ.get("JOBS", 2))]
    if run_quietly(configure) != 0 or run_quietly(build) != 0:
        return None
    built = folder / "locus" / "bridge" / name
    run_quietly(["strip", "--strip-unneeded", str(built)])
    return built


def base_wheel(python: str, torch: pathlib.Path) -> pathlib.Path | None:
    """The wheel as `pip wheel` makes it, with one bridge."""
    folder = WORK / "base"
    shutil.rmtree(folder, ignore_errors=True)
    status = run_quietly(
        [python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], LOCUS_TORCH_DIR=str(torch)
    )
    found = sorted(folder.glob("*.whl"))
    return found[0] if status == 0 and found else None


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


def tagged(wheel: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """With the tag that auditwheel gives it; as it is where there is no auditwheel."""
    if shutil.which("auditwheel") is None:
        print("  auditwheel is not installed: the tag stays", wheel.name.rpartition("-")[2])
        return pathlib.Path(shutil.move(wheel, out / wheel.name))
    excluded = [word for name in EXCLUDED for word in ("--exclude", name)]
    before = set(out.glob("*.whl"))
    if run_quietly(["auditwheel", "repair", *excluded, "--wheel-dir", str(out), str(wheel)]) != 0:
        sys.exit(f"auditwheel is not content; see {WORK / 'log'}")
    wheel.unlink()
    return max(set(out.glob("*.whl")) - before or out.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def make(pythons: list[str], versions: list[str], out: pathlib.Path) -> int:
    """Makes the wheels; 1 where none could be made."""
    out.mkdir(parents=True, exist_ok=True)
    made = 0
    for version in pythons:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: not here, left out")
            continue
        bridges, base, names = [], None, []
        for torch_version in versions:
            torch = torch_folder(torch_version, version)
            bridge = torch and build_bridge(python, torch)
            print(
                f"Python {version}, PyTorch {torch_version}:", bridge.name if bridge else "could not be had", flush=True
            )
            if torch and bridge:
                bridges.append(bridge)
                names.append(torch_version)
                base = base or base_wheel(python, torch)
        if base is None:
            print(f"Python {version}: no wheel; see {WORK / 'log'}")
            continue
        wheel = tagged(put_bridges(base, bridges, WORK), out)
        made += 1
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB, PyTorch {', '.join(names)}")
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
