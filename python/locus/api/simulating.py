"""locus.simulate(): gives a process its simulated machine."""

from __future__ import annotations

from locus.api import guarding
from locus.errors import UsageError
from locus.process.simulation import DEFAULT_KEEP, activate, check_dry, check_options


def simulate(
    devices: int = 1,
    memory: str | int | None = None,
    rng: str = "device",
    card: str | None = None,
    dry: bool = False,
    dry_keep: str | int = DEFAULT_KEEP,
    dry_shapes: str = "half",
    strict_memory: bool = False,
    *,
    history: bool = True,
) -> None:
    """Gives this process a machine with that many simulated CUDA devices, until it ends.

    Works before or after `import torch`, but before the program uses CUDA. Calling it again with the same options
    does nothing. Processes that this one starts get the same machine.

    Args:
        devices: how many CUDA devices, 0 to 64. 0 is a machine without CUDA, whatever the real one has.
        memory: the memory of each device, such as "80GiB", "24GB", "512MiB", "1.5g", or a number of bytes; the card's
            where it is left out.
        rng: "device" gives each device a generator of its own, as on a real machine; "cpu" lets all devices draw
            from the CPU's, so that a program that seeds and draws there gets the same numbers on either.
        card: which card each device is, such as "h200", "a100-80" or "rtx4090": its name, memory and capability, and
            what libraries take of its memory. Without it, a Hopper card with 80 GiB.
        dry: tensors have shapes, places and histories, and only small ones have values: programs of any size run in
            seconds. What reaches the host without a value is made up; locus.is_known() tells.
        dry_keep: the size up to which a dry run computes tensors for real, such as "64KiB"; 0: none.
        dry_shapes: how many elements an unknown mask selects: "half", "most" or "least".
        strict_memory: a dry run that is out of memory raises, as on a card, instead of going on.
        history: record where every tensor comes from, for `locus.history()` and `locus.where()`: the line that made it
            and the lines that moved it. Costs a fraction of a microsecond on each operator.

    Raises:
        locus.errors.UsageError: an option is not valid, or the process already has another machine.
        locus.errors.SetupError: Locus does not work with the PyTorch that is installed.
    """
    settings = check_dry(dry_keep, dry_shapes, strict_memory) if dry else None
    options = check_options(devices, memory, rng, card, settings)
    if not isinstance(history, bool):
        raise UsageError(f"simulate(history={history!r}) is not known. Use True or False.")
    activate(options)
    if history and options.devices > 0:
        guarding.record()
