"""Finding PyTorch and the bridge built for it, and what is said where either is missing."""

import ast
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import locus
from locus import _building, _load, _torch_info, errors


def fake_torch(folder: pathlib.Path, version: str) -> pathlib.Path:
    """A torch package with a version and nothing else."""
    package = folder / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('never import me')\n")
    (package / "version.py").write_text(
        f"from typing import Optional\n\n__version__ = '{version}'\ncuda: Optional[str] = None\n"
    )
    return package


@pytest.fixture
def torch_of(tmp_path, monkeypatch):
    """Puts a fake PyTorch of some version, or none, in the place of the installed one."""

    def put(version):
        info = _torch_info.read(fake_torch(tmp_path / version, version)) if version else None
        monkeypatch.setattr(_torch_info, "find_installed", lambda: info)

    return put


def native(folder: pathlib.Path, *names: str) -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def message(folder):
    with pytest.raises(errors.SetupError) as caught:
        _load.find_bridge(folder)
    return str(caught.value)


def test_torch_is_missing(torch_of, tmp_path):
    torch_of(None)
    text = message(native(tmp_path / "native"))
    assert text.startswith(
        f"PyTorch is not installed in this environment ({sys.executable}). Install it: pip install torch"
    )


def test_torch_is_too_old(torch_of, tmp_path):
    torch_of("1.13.1")
    assert message(native(tmp_path / "native")).startswith("PyTorch 1.13.1 is too old: Locus needs 2.6 or newer.")


@pytest.fixture
def nothing_is_built(monkeypatch, tmp_path):
    monkeypatch.setenv("LOCUS_BUILD", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_bridge_is_for_another_torch(torch_of, tmp_path, nothing_is_built):
    torch_of("2.14.1")
    tag = _torch_info.python_tag()
    text = message(native(tmp_path / "native", f"bridge.torch-2.12.0.{tag}.so", f"bridge.torch-2.13.0.{tag}.so"))
    assert text == (
        "Locus brings bridges for PyTorch 2.12.0 and 2.13.0, but 2.14.1 is installed, and LOCUS_BUILD=0 forbids to "
        "build one. Unset it, or install PyTorch 2.13.0."
    )


def test_bridge_is_for_another_python(torch_of, tmp_path, nothing_is_built):
    torch_of("2.14.1")
    text = message(native(tmp_path / "native", "bridge.torch-2.14.1.cp39.so"))
    assert text.startswith("Locus's bridge was built for another Python (cp39), but this is Python 3.")


def test_bridge_is_missing(torch_of, tmp_path, nothing_is_built):
    torch_of("2.14.1")
    assert message(native(tmp_path / "native")).startswith("Locus has no bridge for PyTorch 2.14.1, and LOCUS_BUILD=0")


def test_bridge_can_not_be_built_without_tools(torch_of, tmp_path, monkeypatch):
    torch_of("2.14.1")
    headers = tmp_path / "2.14.1" / "torch" / "include" / "ATen"
    headers.mkdir(parents=True)
    listed = tmp_path / "2.14.1" / "torchgen" / "packaged" / "ATen" / "native"
    listed.mkdir(parents=True)
    (listed / "native_functions.yaml").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("LOCUS_BUILD", raising=False)
    text = message(native(tmp_path / "native"))
    assert "building one needs a C++ compiler, CMake and Ninja or make" in text
    assert "Install: g++, cmake (pip install cmake) and ninja (pip install ninja)" in text


@pytest.mark.parametrize("system, name", [("darwin", "macOS"), ("win32", "Windows"), ("linux", "")])
def test_other_systems_get_one_sentence(system, name, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    said = f"Locus runs on Linux; this is {name}. Use a Linux machine, a container or WSL"
    assert _torch_info.wrong_system_message() == (said if name else "")


def test_the_build_refuses_other_systems_in_one_sentence(tmp_path):
    """With nothing of Linux's alone touched before: neither os.sched_getaffinity nor fcntl is there."""
    (tmp_path / "scikit_build_core").mkdir()
    (tmp_path / "scikit_build_core" / "__init__.py").touch()
    names = "build_sdist = get_requires_for_build_sdist = build_wheel = None"
    (tmp_path / "scikit_build_core" / "build.py").write_text(names)
    tools = pathlib.Path(__file__).resolve().parents[2] / "tools"
    code = (
        "import os, sys; del os.sched_getaffinity; sys.modules['fcntl'] = None; "
        "import subprocess, pathlib, dataclasses, site, sysconfig; sys.platform = 'darwin'; "
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(tools)!r}]; "
        "import build_backend; build_backend.build_wheel('.')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "Locus runs on Linux; this is macOS. Use a Linux machine, a container or WSL.\n"


def test_a_bridge_in_the_cache_is_taken(torch_of, tmp_path, monkeypatch):
    torch_of("2.14.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = _torch_info.bridge_name(_torch_info.find_installed())
    folder = _building.cache_folder()
    folder.mkdir(parents=True)
    (folder / name).touch()
    assert _load.find_bridge(native(tmp_path / "native")) == folder / name


@pytest.mark.parametrize(
    "version, name",
    [
        ("2.14.1", "2.14.1"),
        ("2.14.1+cpu", "2.14.1"),
        ("2.14.1+cu130", "2.14.1"),
        ("2.14.1+rocm7.1", "2.14.1+rocm7.1"),
        ("2.15.0a0+gitabc", "2.15.0a0+gitabc"),
    ],
)
def test_builds_of_one_release_share_a_bridge(torch_of, tmp_path, version, name):
    torch_of(version)
    found = _torch_info.bridge_name(_torch_info.find_installed())
    assert found == f"bridge.torch-{name}.{_torch_info.python_tag()}.so"
    assert _load.find_bridge(native(tmp_path / "native", found)).name == found


def test_an_old_std_string_has_a_bridge_of_its_own(torch_of, tmp_path):
    torch_of("2.6.0")
    (tmp_path / "2.6.0" / "torch" / "lib").mkdir()
    (tmp_path / "2.6.0" / "torch" / "lib" / "libtorch_cpu.so").touch()
    (tmp_path / "2.6.0" / "torch" / "lib" / "libc10.so").write_bytes(b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs")
    assert "2.6.0-pre-cxx11" in _torch_info.bridge_name(_torch_info.find_installed())


@pytest.mark.parametrize(
    "version, expected", [("2.6", (2, 6)), ("2.13.0+cpu", (2, 13, 0)), ("2.15.0a0+gitabc", (2, 15, 0)), ("x", ())]
)
def test_release(version, expected):
    assert _torch_info.release(version) == expected


def test_the_installed_torch_is_found_without_importing_it():
    code = (
        "import sys; from locus import _load, _torch_info; print(_torch_info.find_installed().version); "
        "_load.find_bridge(); assert 'torch' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    import torch

    assert found == torch.__version__


def test_the_bridge_loads_once():
    code = "from locus import _load; assert _load.load_bridge() is _load.load_bridge(); import locus._bridge"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_build_finds_torch_where_it_is_told(tmp_path, monkeypatch):
    package = fake_torch(tmp_path, "2.9.1")
    monkeypatch.setenv("LOCUS_TORCH_DIR", str(package))
    assert _torch_info.find_for_build() == _torch_info.TorchInfo(package, "2.9.1")


INSTALLERS = {
    "PYTHONPATH": (["pip", "install", "."], {"PYTHONPATH": "{folder}"}),
    "target": (["/x/python", "-m", "pip", "install", "--target", "{folder}", "."], {}),
    "target=": (["uv", "pip", "install", "--target={folder}", "."], {}),
    "prefix": (["/x/bin/pip3.11", "install", "--prefix", "{prefix}", "."], {}),
    "python": (["uv", "pip", "install", "--python", "{prefix}/bin/python", "."], {}),
    "virtual environment": (["uv", "pip", "install", "."], {"VIRTUAL_ENV": "{prefix}"}),
}


@pytest.mark.parametrize("how", INSTALLERS)
def test_build_finds_torch_where_the_installer_was_told(how, tmp_path, monkeypatch):
    """An isolated build sees none of it itself."""
    inside = _torch_info._packages_of(str(tmp_path))[0]
    package = fake_torch(inside, "2.9.1")
    words, variables = INSTALLERS[how]
    fill = {"folder": inside, "prefix": tmp_path}
    installer = _torch_info._Installer(
        [word.format(**fill) for word in words], {name: value.format(**fill) for name, value in variables.items()}
    )
    monkeypatch.setattr(_torch_info, "_ancestors", lambda: [installer])
    monkeypatch.delenv("LOCUS_TORCH_DIR", raising=False)
    assert _torch_info.find_for_build() == _torch_info.TorchInfo(package, "2.9.1")


def test_the_installer_above_is_seen(tmp_path):
    """By its command line and the variables it was started with."""
    code = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', "
        "'from locus import _torch_info; print(_torch_info.build_folders()[0])'], "
        "env={'PATH': '/usr/bin', 'PYTHONNOUSERSITE': '1'}).returncode)"
    )
    script = tmp_path / "pip"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": "/somewhere"}, capture_output=True, text=True
    )
    assert done.stdout.strip() == "/somewhere", done


def test_what_was_looked_at_is_said(monkeypatch):
    monkeypatch.delenv("LOCUS_TORCH_DIR", raising=False)
    words = _torch_info.not_found_message()
    assert all(str(folder) in words for folder in _torch_info.build_folders()) and "LOCUS_TORCH_DIR=" in words


def test_the_version_is_that_of_the_package():
    assert importlib.metadata.version("torch-locus") == locus.__version__


def test_the_package_leaves_with_all_its_files():
    """What `pip uninstall` removes is what RECORD lists: the startup hook and the bridge must be in it."""
    listed = {str(path) for path in importlib.metadata.files("torch-locus")}
    assert "locus-startup.pth" in listed
    assert any(name.startswith("locus/_native/bridge.torch-") for name in listed)
    assert "locus/py.typed" in listed


def run_startup(*arguments, **environment):
    """Runs the startup hook as Python does, in a process that starts without it."""
    hook = pathlib.Path(__file__).resolve().parents[2] / "python" / "locus-startup.pth"
    code = f"import sys\n{' '.join(arguments)}\nexec({hook.read_text()!r})\nprint('locus' in sys.modules)"
    variables = {name: value for name, value in os.environ.items() if name != "LOCUS_SIMULATE"}
    return subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env={**variables, **environment}
    )


def test_startup_hook_does_nothing_unless_asked():
    done = run_startup()
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_startup_hook_survives_a_removed_package():
    done = run_startup(LOCUS_SIMULATE="1")  # -S: no site-packages, so no locus
    assert done.returncode == 0
    assert done.stderr.startswith("locus: not started: No module named 'locus")


def test_a_process_without_pytorch_pays_next_to_nothing():
    """Under a check every Python process starts with the hook; what it needs is imported when PyTorch is."""
    from locus.process import simulation

    machine = simulation.check_options(2, "24GB", "device").to_environment()
    env = {**os.environ, **machine, "LOCUS_CHECK_DIR": "/nowhere"}
    code = "import sys; print(sorted(m for m in sys.modules if m.startswith(('locus', 'typing', 're', 'torch'))))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    loaded = set(ast.literal_eval(done.stdout))
    assert done.stderr == "" and "torch" not in loaded, done
    ours = {name for name in loaded if name.startswith("locus")}
    assert ours == {"locus", "locus._startup", "locus.after_import", "locus.errors"}


def test_the_bridge_has_no_cpp_runtime_of_its_own():
    """Two of them in one process misread each other's streams: numbers in messages are lost, or end it."""
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    needed = subprocess.run(
        ["readelf", "-d", str(_load.find_bridge())], capture_output=True, text=True, check=True
    ).stdout
    assert "[libstdc++.so.6]" in needed
