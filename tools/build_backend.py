"""The PEP 517 backend: scikit-build-core, told for which PyTorch to build and where to keep the objects.

Pip builds in isolation, where `import torch` fails; this finds the PyTorch of the environment that Locus is
being installed into, and keeps one build folder per PyTorch and Python, so that a second install takes seconds.
"""

import importlib.util
import os
import pathlib
import sys

import scikit_build_core.build as _scikit
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_ROOT = pathlib.Path(__file__).resolve().parent.parent

# Ninja alone starts more compilers than there are cores, which costs time: each needs much memory.
if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows, which are refused below
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(len(os.sched_getaffinity(0))))


def _torch_info():
    name = "_locus_torch_info"
    spec = importlib.util.spec_from_file_location(name, _ROOT / "python" / "locus" / "_torch_info.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _settings(given):
    finder = _torch_info()
    if wrong_system := finder.wrong_system_message():
        sys.exit(f"{wrong_system}.")
    torch = finder.find_for_build()
    if torch is None:
        sys.exit(finder.not_found_message())
    if finder.release(torch.version)[:2] < finder.MIN_VERSION:
        sys.exit(finder.too_old_message(torch.version))
    settings = {
        "build-dir": str(_ROOT / "build" / f"release-torch{torch.version}-{finder.python_tag()}"),
        "cmake.define.LOCUS_TORCH_DIR": str(torch.folder),
    }
    settings.update(given or {})
    return settings


def get_requires_for_build_wheel(config_settings=None):
    return _scikit.get_requires_for_build_wheel(_settings(config_settings))


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return _scikit.prepare_metadata_for_build_wheel(metadata_directory, _settings(config_settings))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _scikit.build_wheel(wheel_directory, _settings(config_settings), metadata_directory)


def get_requires_for_build_editable(config_settings=None):
    return _scikit.get_requires_for_build_editable(_settings(config_settings))


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return _scikit.prepare_metadata_for_build_editable(metadata_directory, _settings(config_settings))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _scikit.build_editable(wheel_directory, _settings(config_settings), metadata_directory)
