"""Gives a process the machine that LOCUS_SIMULATE describes, from the moment it imports PyTorch.

Imported at interpreter start (by the .pth file) and by the command line. Never imports PyTorch itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from locus import simulation
from locus.after_import import AfterImport
from locus.errors import LocusError


class _TorchWatcher(AfterImport):
    """Has the simulation start when `torch` has been imported."""

    def __init__(self, options: simulation.SimulationOptions, then: Callable[[], None] | None = None):
        super().__init__("torch", lambda: _activate_or_exit(options, then))


def activate_with_torch(options: simulation.SimulationOptions, then: Callable[[], None] | None = None) -> None:
    """Gives this process the machine: now if PyTorch is there, else when it has been imported. Then calls `then`."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _TorchWatcher)]:
        finder.stop()
    if "torch" in sys.modules:
        _activate_or_exit(options, then)
    else:
        sys.meta_path.insert(0, _TorchWatcher(options, then))


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
