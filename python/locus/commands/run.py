"""`locus run`: runs a program on a machine with simulated CUDA devices."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterable

from locus import _startup, scratch
from locus.errors import UsageError
from locus.process import cluster, endings, launching, notebooks, runner, settings, simulation, standing_in
from locus.process.cards import CARDS, DEFAULT_CARD
from locus.watch import messages

SUMMARY = "run a program on a machine with simulated CUDA devices"
CARD_HELP = f"the card to simulate: {', '.join(key for key in CARDS if key != DEFAULT_CARD)}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Everything after the script, module or code belongs to the program."""
    parser.usage = "locus run [OPTION ...] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    parser.add_argument(
        "--devices", metavar="N", help="how many CUDA devices, 0 to 64 (default: 1, or one for each rank)"
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of each device, such as 24GB (default: the card's, or 80GiB)",
    )
    parser.add_argument("--card", metavar="NAME", help=CARD_HELP)
    parser.add_argument("--rng", metavar="device|cpu", help="random numbers: each device its own, or all the CPU's")
    parser.add_argument("--dry", action="store_true", help="shapes and places only: no values for large tensors")
    parser.add_argument("--dry-keep", metavar="SIZE", help="dry: compute tensors up to this size (default: 64KiB)")
    parser.add_argument("--dry-shapes", metavar="half|most|least", help="dry: how much an unknown mask selects")
    parser.add_argument("--strict-memory", action="store_true", help="dry: raise when a device is out of memory")
    cluster.add_options(parser)
    parser.add_argument(
        "-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module, as python -m"
    )
    parser.add_argument("-c", dest="code", metavar="CODE", nargs=argparse.REMAINDER, help="run code, as python -c")
    parser.add_argument("script", metavar="SCRIPT", nargs=argparse.REMAINDER, help="run a script, with its arguments")


def execute(arguments: argparse.Namespace) -> int:
    """Runs the program; its exit code."""
    shape = cluster.parse(arguments)
    options = machine(arguments, settings.find(), devices=1 if shape is None else shape.per_host)
    program = target(arguments)
    os.environ.update(options.to_environment())
    if shape is not None:
        return _run_ranks(shape, arguments, options, program)
    _startup.activate_with_torch(options)
    if program.kind != "notebook":
        return runner.run(program, _point_to_check)
    book = notebooks.opened(program.name)
    try:
        return runner.run(program, _point_to_check)
    finally:
        book.close()


def _run_ranks(
    shape: cluster.Shape,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    program: runner.Target,
) -> int:
    """The exit code of the first rank that failed, or 0."""
    cluster.check_devices(shape, options.devices)
    chosen = cluster.parse_ranks(arguments.ranks, shape, options.dry is not None)
    if chosen is not None and chosen.is_auto:
        raise UsageError("--ranks auto is for `locus check`, which sees the program's meshes. Name the ranks.")
    with endings.Patience() as patience:
        if chosen is None:
            return launching.launch(shape, program, patience)[0].exit
        folder = scratch.make()
        try:
            return standing_in.launch(shape, chosen, program, patience, folder).end.exit
        finally:
            scratch.remove(folder)


def _point_to_check(error: BaseException) -> None:
    """After an error about devices: what would explain it."""
    if messages.recognize(error) is not None:
        print("locus: `locus check` instead of `locus run` says which tensor that is, and where it came from",
              file=sys.stderr)  # fmt: skip


MACHINE = ("devices", "card", "memory", "rng", "dry", "dry_keep", "dry_shapes", "strict_memory")
"""The options that say what machine there is, and how much of it is simulated."""


def given(arguments: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Options as they stand on the command line; nothing for those that were not given."""
    words: list[str] = []
    for name in names:
        value = getattr(arguments, name)
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, value] if isinstance(value, str) else []
    return words


def is_quiet(arguments: argparse.Namespace) -> bool:
    """Whether standard error takes a report that a machine reads, or nothing at all."""
    return bool(arguments.quiet or (arguments.format != "text" and arguments.output is None))


def machine(
    arguments: argparse.Namespace, project: settings.Settings, devices: int = 1, least: int = 0
) -> simulation.SimulationOptions:
    """The machine that the options describe, else the project's settings, else one with that many devices. `least` is
    how many the command needs, and is said where the number is none."""
    text = arguments.devices
    if text is not None and text.strip().isdecimal() and int(text) > simulation.MAX_DEVICES:
        raise UsageError(f"--devices {text} is more than Locus simulates. Use at most {simulation.MAX_DEVICES}.")
    if text is not None and not text.strip().isdecimal():
        raise UsageError(
            f"--devices {arguments.devices} is not a number of devices. "
            f"Use a whole number from {least} to {simulation.MAX_DEVICES}."
        )
    if arguments.memory is not None and simulation.parse_bytes(arguments.memory) is None:
        raise UsageError(
            f"--memory {arguments.memory} is not a size of memory. "
            "Use a number with a unit, such as 80GiB, 24GB or 512MiB."
        )
    if arguments.card is not None and arguments.card.strip().lower() not in CARDS:
        raise UsageError(f"--card {arguments.card} is not known. Use one of {', '.join(CARDS)}.")
    if arguments.rng not in (None, "device", "cpu"):
        raise UsageError(f"--rng {arguments.rng} is not known. Use device or cpu.")
    if text is not None:
        devices = int(text)
    elif project.devices is not None:
        devices = project.devices
    card = arguments.card or project.card
    memory = arguments.memory or (None if arguments.card else project.memory)
    return simulation.check_options(
        devices, memory, arguments.rng or project.rng or "device", card, dry(arguments, project)
    )


def dry(arguments: argparse.Namespace, project: settings.Settings) -> simulation.DryOptions | None:
    """How the options want a dry run; None where they want none."""
    if not arguments.dry:
        for name in ("dry_keep", "dry_shapes", "strict_memory"):
            if getattr(arguments, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --dry.")
        return None
    try:
        return simulation.check_dry(
            arguments.dry_keep or simulation.DEFAULT_KEEP,
            arguments.dry_shapes or "half",
            arguments.strict_memory,
            project.dry_answers,
        )
    except UsageError as error:
        raise UsageError(f"--{error}") from None


def target(arguments: argparse.Namespace) -> runner.Target:
    """What the command line says to run."""
    rest: list[str] = arguments.script
    for kind, values in (("module", arguments.module), ("code", arguments.code)):
        if values is None:
            continue
        values = values + rest
        if not values:
            flag = "-m" if kind == "module" else "-c"
            raise UsageError(f"{flag} needs {'the name of a module' if kind == 'module' else 'code to run'}.")
        return runner.Target(kind, values[0], values[1:])
    if rest and rest[0] == "--":
        rest = rest[1:]
    if not rest:
        shown = f"`locus {arguments.command} --help` shows how"
        raise UsageError(f"there is nothing to run. Give a script, -m MODULE or -c CODE; {shown}.")
    return command(rest)


_INTERPRETER = re.compile(r"python[0-9.]*")


def command(words: list[str]) -> runner.Target:
    """A script, or what a shell would make of the words: `python …`, or a Python program such as torchrun."""
    name = words[0]
    if notebooks.is_notebook(name):
        return runner.Target("notebook", name, words[1:])
    if os.path.exists(name) or os.sep in name:
        return runner.Target("script", name, words[1:])
    if _INTERPRETER.fullmatch(name):
        rest = list(words[1:])
        while rest and rest[0] in ("-u", "-B", "-E", "-s"):  # what makes no difference here
            rest.pop(0)
        if len(rest) > 1 and rest[0] in ("-m", "-c"):
            return runner.Target("module" if rest[0] == "-m" else "code", rest[1], rest[2:])
        if rest and not rest[0].startswith("-"):
            return runner.Target("script", rest[0], rest[1:])
        raise UsageError(f"`{' '.join(words[:2])}` can't be run here. Give the script, -m MODULE or -c CODE.")
    found = shutil.which(name, path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))
    if found is not None and _is_python(found):
        return runner.Target("script", found, words[1:])
    return runner.Target("script", name, words[1:])


def _is_python(path: str) -> bool:
    """Whether a program begins as the scripts do that Python packages install."""
    try:
        with open(path, "rb") as file:
            return b"python" in file.readline(200)
    except OSError:
        return False
