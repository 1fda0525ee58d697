"""Gives a process the machine that LOCUS_SIMULATE describes, from the moment it imports PyTorch.

Imported at interpreter start (by the .pth file) and by the command line. Never imports PyTorch itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from locus import simulation
from locus.errors import LocusError


class _TorchWatcher:
    """A finder that finds nothing itself, but has the simulation start when `torch` has been imported."""

    def __init__(self, options: simulation.SimulationOptions, then: Callable[[], None] | None = None):
        self._options, self._then = options, then

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        spec = self._find_with_others(name, path, target)
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        # The loader stays the one that torch would have had; only this one instance's exec_module is another
        # for the one call that counts. torch is complete only when that call returns.
        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            stop_watching(self)
            _activate_or_exit(self._options, self._then)

        loader.exec_module = exec_module
        return spec

    def _find_with_others(self, name: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None


def activate_with_torch(options: simulation.SimulationOptions, then: Callable[[], None] | None = None) -> None:
    """Gives this process the machine: now if PyTorch is there, else when it has been imported. Then calls `then`."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _TorchWatcher)]:
        stop_watching(finder)
    if "torch" in sys.modules:
        _activate_or_exit(options, then)
    else:
        sys.meta_path.insert(0, _TorchWatcher(options, then))


def stop_watching(finder: _TorchWatcher) -> None:
    """Takes the finder out; safe when another import has done so already."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def _activate_or_exit(options: simulation.SimulationOptions, then: Callable[[], None] | None = None) -> None:
    # A program that runs without the machine it was promised would give wrong answers: better none.
    try:
        simulation.activate(options)
        if then is not None:
            then()
        elif os.environ.get("LOCUS_CHECK_DIR"):
            from locus import children

            children.start_in_child()
    except LocusError as error:
        sys.stderr.write(f"locus: error: {error}\n")
        raise SystemExit(2) from None


def _start_from_environment() -> None:
    try:
        options = simulation.options_from_environment()
    except LocusError as error:
        sys.stderr.write(f"locus: error: {error}\n")
        sys.stderr.flush()
        os._exit(2)  # the interpreter is still starting; a SystemExit here would become a "Fatal Python error"
    if options is not None:
        activate_with_torch(options)
    edited = os.environ.get("LOCUS_OVERLAY")
    if edited and os.path.exists(edited):
        from locus import overlay

        overlay.install_saved(edited)


_start_from_environment()
