"""Loads the bridge, the C++ extension for the installed PyTorch: of those that came with Locus the one that fits, else
one that was built on this machine (`_building`)."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING, cast

from locus import _building, _torch_info
from locus.errors import SetupError

if TYPE_CHECKING:
    from locus._bridge import Bridge


_MODULE = "locus._bridge"
_NATIVE = pathlib.Path(__file__).parent / "_native"


def find_bridge(native: pathlib.Path = _NATIVE, build: bool = False) -> pathlib.Path:
    """The bridge's file for the installed PyTorch; a SetupError where there is none. Imports nothing of PyTorch's.

    With `build`, one is built where that is possible.
    """
    torch = _torch_info.find_installed()
    if torch is None:
        raise SetupError(_torch_info.missing_message(sys.executable))
    if _torch_info.release(torch.version)[:2] < _torch_info.MIN_VERSION:
        raise SetupError(_torch_info.too_old_message(torch.version))
    path = native / _torch_info.bridge_name(torch)
    if path.exists():
        return path
    cached = _building.cache_folder() / path.name
    if cached.exists():
        return cached
    reason = _building.missing(torch)
    if build and not reason:
        return _building.build(torch)
    raise SetupError(_mismatch_message(torch.version, _bridges(native), reason))


def load_bridge(import_torch: bool = True) -> Bridge:
    """The bridge module, loaded once; PyTorch is imported first unless told otherwise."""
    if _MODULE in sys.modules:
        return cast("Bridge", sys.modules[_MODULE])
    path = find_bridge(build=True)
    if import_torch:
        import torch  # noqa: F401  (its libraries must be in the process before the bridge)
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, str(path), loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MODULE] = module
        loader.exec_module(module)
    except ImportError as error:
        sys.modules.pop(_MODULE, None)
        raise SetupError(
            f"Locus's bridge could not be loaded: {error}. It was built for another build of PyTorch: {path}. "
            "Remove that file, and Locus builds one for this PyTorch where there is a C++ compiler."
        ) from error
    except BaseException:
        sys.modules.pop(_MODULE, None)
        raise
    return cast("Bridge", module)


def library_folders() -> list[str]:
    """Where code lives that is not the program's: PyTorch, Locus, NumPy, the standard library, and the module that
    wraps what PyTorch calls deprecated."""
    import torch

    numpy = importlib.util.find_spec("numpy")
    files = [torch.__file__, __file__, os.__file__, *([numpy.origin] if numpy is not None and numpy.origin else [])]
    folders = [os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files]
    wrapper = importlib.util.find_spec("typing_extensions")
    return [*folders, *([wrapper.origin] if wrapper is not None and wrapper.origin else [])]


def _bridges(native: pathlib.Path) -> list[tuple[str, str]]:
    """(PyTorch version, Python tag) of every bridge in `native`."""
    matches = (re.fullmatch(r"bridge\.torch-(.+)\.(cp\w+)\.so", path.name) for path in sorted(native.glob("bridge.*")))
    return [(match.group(1), match.group(2)) for match in matches if match]


def _mismatch_message(version: str, built: list[tuple[str, str]], reason: str) -> str:
    tag = _torch_info.python_tag()
    here = [torch for torch, python in built if python == tag]
    others = sorted({python for _, python in built} - {tag})
    if here:
        have = f"Locus brings bridges for PyTorch {_building.listed(here)}, but {version} is installed"
    elif others:
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        have = f"Locus's bridge was built for another Python ({_building.listed(others)}), but this is Python {running}"
    else:
        have = f"Locus has no bridge for PyTorch {version}"
    if not reason:
        return f"{have}. It is built at the first use."
    return f"{have}, and {reason}{f', or install PyTorch {here[-1]}' if here else ''}."
