"""Loads the bridge, the C++ extension that was built for the installed PyTorch. Never builds one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys
from typing import TYPE_CHECKING, cast

from locus import _torch_info
from locus.errors import SetupError

if TYPE_CHECKING:
    from locus._bridge import Bridge


_MODULE = "locus._bridge"
_NATIVE = pathlib.Path(__file__).parent / "_native"


def find_bridge(native: pathlib.Path = _NATIVE) -> pathlib.Path:
    """The bridge's file for the installed PyTorch; a SetupError where there is none. Imports nothing."""
    torch = _torch_info.find_installed()
    if torch is None:
        raise SetupError(_torch_info.missing_message(sys.executable))
    if _torch_info.release(torch.version)[:2] < _torch_info.MIN_VERSION:
        raise SetupError(_torch_info.too_old_message(torch.version))
    path = native / _torch_info.bridge_name(torch.version)
    if path.exists():
        return path
    raise SetupError(_mismatch_message(torch.version, _bridges(native)))


def load_bridge(import_torch: bool = True) -> Bridge:
    """The bridge module, loaded once; PyTorch is imported first unless told otherwise."""
    if _MODULE in sys.modules:
        return cast("Bridge", sys.modules[_MODULE])
    path = find_bridge()
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
            f"Locus's bridge could not be loaded: {error}. "
            f"It may have been built for another build of PyTorch. {_REBUILD}"
        ) from error
    except BaseException:
        sys.modules.pop(_MODULE, None)
        raise
    return cast("Bridge", module)


def library_folders() -> list[str]:
    """Where code lives that is not the program's: PyTorch, Locus and the standard library."""
    import torch

    files = (torch.__file__, __file__, os.__file__)
    return [os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in files]


_REBUILD = "Rebuild it: pip install --force-reinstall --no-deps locus (or `make build` in the source tree)."


def _bridges(native: pathlib.Path) -> list[tuple[str, str]]:
    """(PyTorch version, Python tag) of every bridge in `native`."""
    matches = (re.fullmatch(r"bridge\.torch-(.+)\.(cp\w+)\.so", path.name) for path in sorted(native.glob("bridge.*")))
    return [(match.group(1), match.group(2)) for match in matches if match]


def _mismatch_message(version: str, built: list[tuple[str, str]]) -> str:
    if not built:
        return f"Locus's bridge is missing from {_NATIVE}; PyTorch {version} is installed. {_REBUILD}"
    same = [tag for torch, tag in built if torch == version]
    if same:
        running = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"Locus's bridge was built for another Python ({same[0]}), but this is Python {running}. {_REBUILD}"
    names = " and ".join(torch for torch, _ in built)
    return f"Locus's bridge was built for PyTorch {names}, but {version} is installed. {_REBUILD}"
