"""`locus check`: runs a program on simulated CUDA devices and reports every tensor that is on the wrong one."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from locus import children, endings, ranks, reports, runner, scratch, settings, simulation
from locus.commands import fix, run
from locus.errors import LocusError, UsageError
from locus.ranks import launching

_SIGNALS = 128  # exit codes of programs that a signal ended begin here
_USAGE_ERROR = 2  # what argparse ends a program with that was given an option it has not
_CLOSED_PIPE = 120  # what Python itself ends with when its output can't be written

SUMMARY = "find every tensor that is on the wrong device, in one run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Everything after the script, module or code belongs to the program."""
    run.configure(parser)
    parser.usage = (
        "locus check [--devices N] [--memory SIZE] [--rng device|cpu] [--steps N] "
        f"[--format {'|'.join(reports.FORMS)}] [-o FILE] {' '.join(f'[--{form} FILE]' for form in reports.SIDE_FORMS)} "
        "[--ledger] [--baseline REPORT] [--verify [--max-runs N]] [--real] [--nproc N] "
        "(SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    )
    for action in parser._actions:
        if action.dest == "devices":
            action.help = "how many CUDA devices, 1 to 64 (default: 2, or one for each rank)"
    parser.add_argument("--steps", metavar="N", help="end the program after N optimizer steps, and report")
    reports.add_options(parser, "standard error")
    parser.add_argument("--baseline", metavar="REPORT", help="fail only on what this earlier JSON report has not")
    parser.add_argument("--real", action="store_true", help="use this machine's own CUDA devices; simulate nothing")
    parser.add_argument("--verify", action="store_true", help="run again with the edits, to see that they mend it")
    parser.add_argument("--max-runs", metavar="N", help="how often to run it again at most, 1 or more (default: 16)")
    parser.add_argument("--nproc", metavar="N", help="start N ranks of a distributed program, and check them all")
    parser.add_argument("--ledger", action="store_true", help="add transfers, synchronisations and memory by line")


class Observed(NamedTuple):
    """A program that was checked."""

    report: bytes
    """As JSON."""
    outputs: list[reports.Output]
    exit: int
    """The program's own exit code; 2 where a mistake could not be recorded."""
    outcome: Any
    """What came of trying the edits; None where that was not asked for, or where nothing was found."""


def execute(arguments: argparse.Namespace) -> int:
    """Runs and checks the program. 0: nothing found, 1: findings, 2: Locus could not do it, else the program's own."""
    return observe(arguments, lambda observed: _report(observed, arguments))


def _report(observed: Observed, arguments: argparse.Namespace) -> int:
    write(observed, arguments)
    if observed.exit == _USAGE_ERROR:
        _tell_of_misplaced(arguments)
    if observed.exit == runner.INTERRUPTED:
        return observed.exit
    return 1 if reports.is_failure(observed.report) else observed.exit


def _tell_of_misplaced(arguments: argparse.Namespace) -> None:
    """`locus check train.py --html page.html`: the program was given an option that was meant for Locus."""
    parser = argparse.ArgumentParser(add_help=False)
    configure(parser)
    given = [word.partition("=")[0] for word in run.target(arguments).arguments]
    mine = [word for word in given if word.startswith("--") and word in parser._option_string_actions]
    if mine:
        print(f"locus: {mine[0]} went to the program; options of Locus stand before it", file=sys.stderr)


def observe(arguments: argparse.Namespace, finish: Callable[[Observed], int]) -> int:
    """Runs and checks the program; with arguments.verify, runs it again with the edits. However the program ends,
    `finish` gets what was observed, once, and gives the exit code."""
    project = settings.find()
    ranks_wanted = int(arguments.nproc) if (arguments.nproc or "").isdecimal() else 0
    options = run.machine(arguments, project, devices=max(2, ranks_wanted))
    if options.devices == 0 and not arguments.real:
        where = f"{project.file}: tool.locus.devices = 0" if arguments.devices is None else "--devices 0"
        raise UsageError(f"{where} leaves nothing to check: a machine without CUDA has one device only. Use 1 or more.")
    nproc = launching.parse_nproc(arguments.nproc, options.devices)
    target = run.target(arguments)
    limit = _steps(arguments.steps)
    max_runs = fix.parse_max_runs(arguments.max_runs, arguments.verify)
    outputs = reports.outputs(arguments)
    from locus.session import Session

    earlier = reports.read_baseline(arguments.baseline) if arguments.baseline is not None else None
    if nproc is not None:
        observed = _observe_ranks(nproc, target, arguments, options, project, limit, outputs, earlier)
        return finish(observed)
    verifier = None
    session = Session(target.name, target.arguments, limit, project)
    session.offers = [] if arguments.verify else None
    session.folder = scratch.make()

    def make(exit_code: int, finished: bool) -> bytes:
        if finished:
            ranks.judge(session, session.folder)
            session.coverage.take_in(session.folder)
            children.take_in(session.bridge, session.folder)
        report = session.json(exit_code, finished)
        return report if earlier is None else reports.compare(report, earlier, arguments.baseline)

    def publish(report: bytes, exit_code: int) -> int:
        outcome = None
        if verifier is not None and exit_code < _SIGNALS:  # else somebody waits for the end
            with endings.interruptible():
                report, outcome = verifier.verify(session, report)
        if session.failed() and not session.finding_count():
            exit_code = 2
        return finish(Observed(report, outputs, exit_code, outcome))

    ending = endings.Ending(make, publish, session.folder)
    ending.prepare()
    exit_code = None
    try:
        if arguments.verify:
            # Set aside before the program starts: it runs the program again from there.
            verifier = fix.Verifier(
                target,
                session.folder,
                lambda: _prepare_devices(arguments, options),
                lambda n: Session(target.name, target.arguments, n),
                max_runs,
                arguments.format != "text" and arguments.output is None,
            )
        exit_code = _run_to_its_end(target, arguments, options, session, ending)
        return exit_code
    except LocusError:
        ending.discard()  # nothing ran: there is nothing to report
        raise
    finally:
        if verifier is not None:
            verifier.close(exit_code)


def _run_to_its_end(
    target: runner.Target,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    session: Any,
    ending: endings.Ending,
) -> int:
    from locus.session import StopAfterSteps

    try:
        _prepare_devices(arguments, options)
        session.start(ending)
        with children.gathering(session.folder):
            children.follow(session)
            try:
                exit_code = runner.run(target, ends_quietly=StopAfterSteps)
            finally:
                children.write_own()  # of a child that comes out here; nothing in the program itself
    except SystemExit as stop:
        exit_code = _exit_code(stop)
    session.stop()
    flushed = _flush()
    if children.is_child():
        raise SystemExit(exit_code)  # forked by the program, and come out here: the parent reports
    return ending.finish(flushed or exit_code)


def run_watched(session: Any, target: runner.Target, folder: str, finish: Callable[[int], NoReturn]) -> NoReturn:
    """Runs the program under a session, with the processes that it starts, which report into the folder. However the
    program ends, `finish` gets its exit code."""
    from locus.session import StopAfterSteps

    def end(exit_code: int) -> NoReturn:
        session.stop()
        _flush()
        ranks.judge(session, folder)
        children.take_in(session.bridge, folder)
        finish(exit_code)

    session.start()
    endings.catch_exit(end)
    with children.gathering(folder):
        children.follow(session)
        try:
            exit_code = runner.run(target, ends_quietly=StopAfterSteps)
        except SystemExit as stop:
            exit_code = _exit_code(stop)
        if children.is_child():
            raise SystemExit(exit_code)  # forked by the program, and come out here: the parent reports
        end(exit_code)


def _observe_ranks(
    nproc: int,
    target: runner.Target,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    project: settings.Settings,
    limit: int | None,
    outputs: list[reports.Output],
    earlier: bytes | None,
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
    session = Session(target.name, target.arguments, settings=project)
    with children.gathering() as folder:
        exit_code, codes = launching.launch(nproc, target)
        _flush()
        for variable in options.to_environment():
            os.environ.pop(variable, None)  # this process only reports: it needs no devices
        session.load()
        ranks.judge(session, folder, codes)
        children.take_in(session.bridge, folder)
        joined = ranks.joined(session, folder)
    report = session.json(exit_code)
    report = report if earlier is None else reports.compare(report, earlier, arguments.baseline)
    observed = Observed(report, outputs, exit_code, None)
    if session.finding_count() or joined:
        return observed
    if exit_code == 0:
        write(observed, arguments)
        raise UsageError(
            f"--nproc {nproc}: no rank has called torch.distributed.init_process_group(), so {nproc} copies of the "
            "program ran, each by itself. Call it, or leave --nproc out."
        )
    if failed := launching.describe_failures(codes):
        write(observed, arguments)
        raise UsageError(
            f"--nproc {nproc}: {failed} before the ranks had met in torch.distributed.init_process_group(), so that "
            "none could go on. What was printed above says why."
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


def _flush() -> int:
    """What the program has printed goes out before the report; Python's own exit code where nobody reads any more."""
    failed = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            failed = _CLOSED_PIPE if stream is sys.stdout else failed
    if failed:  # or Python would try again at its end, and complain
        with contextlib.suppress(OSError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.close(nothing)
    return failed


def write(observed: Observed, arguments: argparse.Namespace) -> None:
    """Writes the report where the options say."""
    problems = reports.write(observed.report, observed.outputs, arguments.ledger)
    if arguments.output is None or problems:  # what could not be written must not be lost
        _show(observed.report, arguments)
    if problems:
        raise LocusError(" ".join(problems))


def _show(report: bytes, arguments: argparse.Namespace) -> None:
    """On standard error as it was when the check began, whatever the program has put in its place."""
    try:
        terminal = os.isatty(2)
    except OSError:
        terminal = False
    color = terminal and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((80, 24)).columns if terminal else 80
    endings.to_stderr(reports.convert(report, arguments.format, color, width, arguments.ledger))
