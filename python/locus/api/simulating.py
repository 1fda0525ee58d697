"""locus.simulate(): gives a process its simulated machine."""

from __future__ import annotations

from locus.process.simulation import activate, check_options


def simulate(devices: int = 1, memory: str | int | None = None, rng: str = "device", card: str | None = None) -> None:
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

    Raises:
        locus.errors.UsageError: an option is not valid, or the process already has another machine.
        locus.errors.SetupError: Locus does not work with the PyTorch that is installed.
    """
    activate(check_options(devices, memory, rng, card))
