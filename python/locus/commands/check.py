"""`locus check`: runs a program on simulated CUDA devices and reports every tensor that is on the wrong one."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any, NamedTuple

from locus import children, ranks, reports, runner, simulation
from locus.commands import run
from locus.errors import LocusError, UsageError
from locus.ranks import launching

SUMMARY = "find every tensor that is on the wrong device, in one run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Everything after the script, module or code belongs to the program."""
    run.configure(parser)
    parser.usage = (
        "locus check [--devices N] [--memory SIZE] [--rng device|cpu] [--steps N] "
        f"[--format {'|'.join(reports.FORMS)}] [-o FILE] {' '.join(f'[--{form} FILE]' for form in reports.SIDE_FORMS)} "
        "[--ledger] [--verify] [--real] [--nproc N] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    )
    parser.set_defaults(devices=None)
    for action in parser._actions:
        if action.dest == "devices":
            action.help = "how many CUDA devices, 0 to 64 (default: 2, or one for each rank)"
    parser.add_argument("--steps", metavar="N", help="end the program after N optimizer steps, and report")
    reports.add_options(parser, "standard error")
    parser.add_argument("--real", action="store_true", help="use this machine's own CUDA devices; simulate nothing")
    parser.add_argument("--verify", action="store_true", help="run again with the edits, to see that they mend it")
    parser.add_argument("--nproc", metavar="N", help="start N ranks of a distributed program, and check them all")
    parser.add_argument("--ledger", action="store_true", help="add transfers, synchronisations and memory by line")


class Observed(NamedTuple):
    """A program that was checked."""

    report: bytes
    """As JSON."""
    outputs: list[reports.Output]
    exit: int
    """The program's own exit code; 2 where a mistake could not be recorded."""
    found: int
    """How many root causes were found."""
    outcome: Any
    """What came of trying the edits; None where that was not asked for, or where nothing was found."""


def execute(arguments: argparse.Namespace) -> int:
    """Runs and checks the program. 0: nothing found, 1: findings, 2: Locus could not do it, else the program's own."""
    observed = observe(arguments)
    write(observed, arguments)
    return 1 if observed.found else observed.exit


def observe(arguments: argparse.Namespace) -> Observed:
    """Runs and checks the program; with arguments.verify, runs it again with the edits."""
    if arguments.devices is None:
        arguments.devices = str(max(2, int(arguments.nproc))) if (arguments.nproc or "").isdecimal() else "2"
    options = run.machine(arguments)
    nproc = launching.parse_nproc(arguments.nproc, options.devices)
    target = run.target(arguments)
    limit = _steps(arguments.steps)
    outputs = reports.outputs(arguments)
    from locus.session import Session

    if nproc is not None:
        return _observe_ranks(nproc, target, arguments, options, limit, outputs)
    verifier = None
    if arguments.verify:
        from locus.commands.fix import Verifier

        # Set aside before the program starts: it runs the program again from there.
        verifier = Verifier(
            target, lambda: _prepare_devices(arguments, options), lambda n: Session(target.name, target.arguments, n)
        )
    _prepare_devices(arguments, options)
    session = Session(target.name, target.arguments, limit)
    session.offers = [] if verifier is not None else None
    exit_code = run_watched(session, target)
    report = session.json(exit_code)
    outcome = None
    if verifier is not None:
        try:
            if exit_code != runner.INTERRUPTED:
                report, outcome = verifier.verify(session, report)
        finally:
            verifier.close()
    found = session.finding_count()
    if session.failed() and not found:
        exit_code = 2
    return Observed(report, outputs, exit_code, found, outcome)


def run_watched(session: Any, target: runner.Target) -> int:
    """Runs the program under a session, with the processes that it starts; its exit code."""
    from locus.session import StopAfterSteps

    session.start()
    with children.gathering() as folder:
        children.follow(session)
        try:
            exit_code = runner.run(target, ends_quietly=StopAfterSteps)
        except UsageError:
            session.stop()  # nothing ran: there is nothing to report
            raise
        except SystemExit as stop:
            exit_code = _exit_code(stop)
        session.stop()
        _flush()
        if children.is_child():
            raise SystemExit(exit_code)  # forked by the program, and come out here: the parent reports
        ranks.judge(session, folder)
        children.take_in(session.bridge, folder)
    return exit_code


def _observe_ranks(
    nproc: int,
    target: runner.Target,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    limit: int | None,
    outputs: list[reports.Output],
) -> Observed:
    """Starts the ranks, each of which checks itself, and makes one report of theirs."""
    from locus.session import Session

    if arguments.verify:
        raise UsageError(
            "edits are tried in one process; --nproc can't be had with --verify or `locus fix`. Leave it out."
        )
    if arguments.real:
        raise UsageError(
            "--nproc simulates a device for each rank; it can't be had with --real. Leave one of them out."
        )
    os.environ.update(options.to_environment())
    if limit is not None:
        os.environ[children.STEPS_VARIABLE] = str(limit)
    session = Session(target.name, target.arguments)
    with children.gathering() as folder:
        exit_code, codes = launching.launch(nproc, target)
        _flush()
        for variable in options.to_environment():
            os.environ.pop(variable, None)  # this process only reports: it needs no devices
        session.load()
        ranks.judge(session, folder, codes)
        children.take_in(session.bridge, folder)
    observed = Observed(session.json(exit_code), outputs, exit_code, session.finding_count(), None)
    if not observed.found and exit_code == 0 and not ranks.joined(session):
        write(observed, arguments)
        raise UsageError(
            f"--nproc {nproc}: no rank has called torch.distributed.init_process_group(), so {nproc} copies of the "
            "program ran, each by itself. Call it, or leave --nproc out."
        )
    return observed


def _prepare_devices(arguments: argparse.Namespace, options: simulation.SimulationOptions) -> None:
    if arguments.real:
        from locus import real

        if simulation.SIMULATE_VARIABLE in os.environ:
            raise UsageError(
                f"--real can't be had where {simulation.SIMULATE_VARIABLE} simulates devices. Unset it, or leave "
                f"--real out."
            )
        real.need_devices("--real")
        real.start()
        return
    os.environ.update(options.to_environment())
    simulation.simulate(options.devices, options.memory_bytes, options.rng)


def _steps(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--steps {text} is not a number of steps. Use a whole number from 1 on.")
    return int(text)


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # a closed pipe; the report may still reach its file


def write(observed: Observed, arguments: argparse.Namespace) -> None:
    """Writes the report where the options say."""
    problems = reports.write(observed.report, observed.outputs, arguments.ledger)
    if arguments.output is None or problems:  # what could not be written must not be lost
        _show(observed.report, arguments)
    if problems:
        raise LocusError(" ".join(problems))


def _show(report: bytes, arguments: argparse.Namespace) -> None:
    terminal = sys.stderr.isatty()
    color = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((80, 24)).columns if terminal else 80
    data = reports.convert(report, arguments.format, color, width, arguments.ledger)
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.flush()
    except (OSError, AttributeError):
        os.write(2, data)
