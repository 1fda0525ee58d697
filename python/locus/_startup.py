"""Gives a process the machine that LOCUS_SIMULATE describes, from the moment it imports PyTorch.

Imported at interpreter start (by the .pth file) and by the command line. Never imports PyTorch itself. Every Python
process under a check starts with this file, most of them without PyTorch: until that comes it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

from locus.after_import import AfterImport
from locus.errors import LocusError, as_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from locus.process import simulation

_VARIABLES = ("LOCUS_SIMULATE", "LOCUS_MEMORY", "LOCUS_RNG")


class _TorchWatcher(AfterImport):
    """Has the simulation start when `torch` has been imported."""

    def __init__(self, options: simulation.SimulationOptions | dict[str, str], then: Callable[[], None] | None = None):
        """`options` may be variables of the environment, known to be right but not yet read."""
        super().__init__("torch", lambda _: _activate_or_exit(options, then))


def activate_with_torch(
    options: simulation.SimulationOptions | dict[str, str], then: Callable[[], None] | None = None
) -> None:
    """Gives this process the machine: now if PyTorch is there, else when it has been imported. Then calls `then`."""
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _TorchWatcher)]:
        finder.stop()
    if "torch" in sys.modules:
        _activate_or_exit(options, then)
    else:
        sys.meta_path.insert(0, _TorchWatcher(options, then))


def _activate_or_exit(
    options: simulation.SimulationOptions | dict[str, str], then: Callable[[], None] | None = None
) -> None:
    from locus.process import simulation

    # A program that runs without the machine it was promised would give wrong answers: better none.
    try:
        wanted = simulation.options_from_environment(options) if isinstance(options, dict) else options
        if wanted is not None:
            simulation.activate(wanted)
        if then is not None:
            then()
        elif os.environ.get("LOCUS_CHECK_DIR"):
            from locus.process import children

            children.start_in_child()
    except LocusError as error:
        sys.stderr.write(as_line(error) + "\n")
        raise SystemExit(2) from None


def _is_our_own(variables: dict[str, str]) -> bool:
    """Whether this is how Locus itself writes them for its children: there is nothing to find wrong, then."""
    devices, memory, rng = (variables.get(name, "") for name in _VARIABLES)
    number = devices.removeprefix("cuda:")
    has_size = memory.isdecimal() and len(memory) < 13
    return number != devices and number in _NUMBERS and has_size and rng in ("device", "cpu")


_NUMBERS = {str(number) for number in range(65)}


def begin() -> None:
    """What LOCUS_SIMULATE asks for."""
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    if variables:  # what the program makes of CUDA_VISIBLE_DEVICES is told from what it was before
        os.environ.setdefault("LOCUS_OUTSIDE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
    if _is_our_own(variables) and "torch" not in sys.modules:
        activate_with_torch(variables)
    elif variables:
        from locus.process import simulation

        try:
            options = simulation.options_from_environment()
        except LocusError as error:
            sys.stderr.write(as_line(error) + "\n")
            sys.stderr.flush()
            os._exit(2)  # the interpreter is still starting; a SystemExit here would become a "Fatal Python error"
        if options is not None:
            activate_with_torch(options)
    edited = os.environ.get("LOCUS_OVERLAY")
    if edited and os.path.exists(edited):
        from locus.process import overlay

        overlay.install_saved(edited)
