"""`locus check`: runs a program on simulated CUDA devices and reports every tensor that is on the wrong one."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from locus import scratch
from locus.commands import checked_ranks, run, several
from locus.errors import LocusError, UsageError
from locus.process import (
    children,
    cluster,
    endings,
    gathering,
    held,
    left_running,
    notebooks,
    parts,
    reports,
    reruns,
    runner,
    screen,
    settings,
    simulation,
    tracing,
    watched,
)
from locus.process.session import Session
from locus.program.end import End
from locus.ranks import checking
from locus.watch import real

if TYPE_CHECKING:
    from locus._bridge import Report
    from locus.fixing.verifying import Outcome

DRY_STEPS = 2
"""After so many optimizer steps a dry check has seen what repeats itself."""

_USAGE_ERROR = 2  # what argparse ends a program with that was given an option it has not

EXIT_CODES = (
    "exit status: 0 nothing was found in what ran; 1 findings, or the program's own; 2 nothing was or could be "
    "checked; 130 Ctrl-C; 143 SIGTERM; other: the program's own"
)

SUMMARY = "find every tensor that is on the wrong device, in one run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Everything after the script, module or code belongs to the program."""
    run.configure(parser)
    parser.usage = (
        "locus check [OPTION ...] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]\n"
        "       locus check [OPTION ...] PROGRAM PROGRAM ... | FOLDER ..."
    )
    for action in parser._actions:
        if action.dest == "devices":
            action.help = "how many CUDA devices, 1 to 64 (default: 2, or one for each rank)"
    parser.add_argument("--steps", metavar="N", help="end the program after N optimizer steps, and report")
    reports.add_options(parser, "standard error")
    parser.add_argument("--baseline", metavar="REPORT", help="fail only on what this earlier JSON report has not")
    parser.add_argument("--real", action="store_true", help="use this machine's own CUDA devices; simulate nothing")
    parser.add_argument("--verify", action="store_true", help="run again with the edits, to see that they fix it")
    parser.add_argument("--max-runs", metavar="N", help="how often to run it again at most, 1 or more (default: 16)")
    parser.add_argument("--allow-empty", action="store_true", help="a program that calls no operator is no failure")
    parser.add_argument("--report-dir", metavar="DIR", help="several hosts: a folder that all see, for one report")
    parser.add_argument("--report-wait", metavar="S", help="how long to wait for other hosts, in seconds (default: 60)")
    parser.add_argument("--trace", metavar="FILE", help="also write a trace, for Perfetto and Chrome's viewer")
    parser.add_argument("--each", action="store_true", help="several programs, also where the first takes arguments")
    parser.epilog = EXIT_CODES


class Observed(NamedTuple):
    """A program that was checked."""

    report: Report
    outputs: list[reports.Output]
    outcome: Outcome | None
    """What came of trying the edits; None where that was not asked for, or where nothing was found."""
    delivered: gathering.Delivered | None = None
    """Where another host makes the report of all; None: this process makes it."""
    is_spread: bool = False
    """Whether ranks ran on other hosts."""


def execute(arguments: argparse.Namespace) -> int:
    """Runs and checks the program; the exit status that its verdict has (locus/engine/verdict.h)."""
    is_one = arguments.script[:1] == ["--"]
    words = arguments.script[1:] if is_one else arguments.script
    if arguments.module is None and arguments.code is None and words:
        if arguments.each or several.is_folder_of_programs(words) or (not is_one and several.are_programs(words)):
            return several.execute(arguments, words)
    return observe(arguments, lambda observed: _report(observed, arguments))


def _report(observed: Observed, arguments: argparse.Namespace) -> int:
    held.note(observed.report)
    if observed.delivered is not None:
        judgment = reports.judge(observed.report)
        if not run.is_quiet(arguments):
            endings.say(f"{observed.delivered.who}: {judgment.words}; {observed.delivered.where}")
        return judgment.exit
    write(observed, arguments)
    tell_of_misplaced(observed.report, arguments, configure)
    return reports.judge(observed.report).exit


def tell_of_misplaced(
    report: Report, arguments: argparse.Namespace, configure: Callable[[argparse.ArgumentParser], None]
) -> None:
    """`locus check train.py --html page.html`: the program was given an option that was meant for Locus, and refused
    it, or reads no arguments."""
    target = run.target(arguments)
    refused = report.exit == _USAGE_ERROR
    ignored = target.kind in ("script", "notebook") and not several.reads_arguments(target.name)
    if not refused and (not ignored or run.is_quiet(arguments)):
        return
    parser = argparse.ArgumentParser(add_help=False)
    configure(parser)
    given = [word.partition("=")[0] for word in target.arguments]
    mine = [word for word in given if word.startswith("--") and word in parser._option_string_actions]
    if mine:
        endings.say(f"{mine[0]} went to the program; options of Locus stand before it")


def observe(arguments: argparse.Namespace, finish: Callable[[Observed], int]) -> int:
    """Runs and checks the program; with arguments.verify, runs it again with the edits. However the program ends,
    `finish` gets what was observed, once, and gives the exit code."""
    project = settings.find()
    shape = cluster.parse(arguments)
    options = run.machine(arguments, project, devices=max(2, cluster.ranks_here(shape)), least=1)
    if options.devices == 0 and not arguments.real:
        where = f"{project.file}: tool.locus.devices = 0" if arguments.devices is None else "--devices 0"
        raise UsageError(f"{where} leaves nothing to check: a machine without CUDA has one device only. Use 1 or more.")
    if shape is not None:
        cluster.check_devices(shape, options.devices)
    target = run.target(arguments)
    limit = _steps(arguments.steps)
    reports.style_of(arguments)  # what can't be meant is said before the program runs
    note_of_limit = ""
    if limit is None and options.dry is not None:
        limit = DRY_STEPS
        note_of_limit = f"a dry check ends after {DRY_STEPS} optimizer steps; --steps N takes another number"
    max_runs = reruns.parse_max_runs(arguments.max_runs, arguments.verify)
    outputs = reports.outputs(arguments)
    earlier = reports.read_baseline(arguments.baseline) if arguments.baseline is not None else None

    def done(report: Report, outcome: Outcome | None) -> int:
        """Gives the exit code: what was observed is told of here, or where the report of all hosts is made."""
        if earlier is not None and together.delivered is None:
            report.compare(earlier, arguments.baseline)
        return finish(Observed(report, outputs, outcome, together.delivered, together.is_spread))

    if arguments.trace is not None:
        reports.check_writable("--trace", arguments.trace)
        os.environ[tracing.VARIABLE] = "1"
    together = gathering.Gathering(_hosts(arguments, shape))
    together.announce()
    if shape is not None:
        ranks = checked_ranks.Ranks(shape, target, arguments, options, project, limit, note_of_limit, together)
        return ranks.observe(done)
    book = notebooks.opened(target.name) if target.kind == "notebook" else None
    verifier = None
    session = Session(target.name, target.arguments, limit, project)
    session.note_of_limit = note_of_limit
    session.allow_empty = arguments.allow_empty
    session.folder = scratch.make()

    def make(end: End, patience: endings.Patience | None) -> Report:
        if patience is None:
            return session.report(end, finished=False)
        together.try_to_gather(session, session.folder, end, patience=patience)
        session.left_running = left_running.told(session.folder)
        session.coverage.take_in(session.folder)
        children.take_in(session, session.folder)
        if together.is_whole:
            checking.judge(session, session.folder, together.codes)
        report = session.report(together.end)
        together.apply(report)
        return report

    def revive(report: Report) -> None:
        session.load()
        together.try_to_gather(session, session.folder, End(report.exit, report.ended_by), dead=report)
        children.join(session, report, session.folder)
        for note in left_running.told(session.folder):
            report.note_unseen(note)
        together.apply(report)

    def publish(report: Report, patience: endings.Patience) -> int:
        outcome = None
        if verifier is not None and not report.ended_by.startswith("SIG"):  # else somebody waits for the end
            with patience.interruptible():
                outcome = verifier.verify(session, report)
        if outcome is not None:
            session.set_aside(report)  # what only the runs with the fixes have shown
        if book is not None:
            report = book.translate(report)
        if arguments.trace is not None:
            tracing.write(arguments.trace, session.folder, json.loads(report.render("json")))
        if verifier is not None and patience.came:
            done(report, None)
            return End.by_signal(patience.came[0]).exit
        return done(report, outcome)

    ending = endings.Ending(make, publish, revive, session.folder)
    ending.prepare()
    exit_code = None
    try:
        if arguments.verify:
            # Set aside before the program starts: it runs the program again from there.
            verifier = reruns.Verifier(
                target,
                session.folder,
                lambda shared_rng: _prepare_devices(arguments, options._replace(rng="cpu") if shared_rng else options),
                lambda n: Session(target.name, target.arguments, n, project),
                max_runs,
                run.is_quiet(arguments),
                compares_output=not arguments.real,  # a card's numbers are not the CPU's to the last digit
            )
        exit_code = _run_to_its_end(target, arguments, options, session, ending)
        return exit_code
    except LocusError:
        ending.discard()  # nothing ran: there is nothing to report
        raise
    finally:
        if verifier is not None:
            verifier.close(exit_code)
        if book is not None:
            book.close()


def _run_to_its_end(
    target: runner.Target,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    session: Session,
    ending: endings.Ending,
) -> int:
    try:
        _prepare_devices(arguments, options)
        session.start(ending)
        if arguments.trace is not None:
            tracing.begin()
        with children.gathering(session.folder):
            children.follow(session)
            try:
                end = watched.run_whole(target, session, reruns.PATIENCE if arguments.verify else None)
            finally:
                children.write_own()  # of a child that comes out here; nothing in the program itself
        with endings.Patience():
            session.stop()
            flushed = watched.flush()
            return ending.finish(End(flushed) if flushed else end)
    except KeyboardInterrupt as second:  # while the first one was shown
        return ending.finish(End.by_error(second))


def _prepare_devices(arguments: argparse.Namespace, options: simulation.SimulationOptions) -> None:
    if arguments.real:
        if simulation.SIMULATE_VARIABLE in os.environ:
            raise UsageError(
                f"--real can't be had where {simulation.SIMULATE_VARIABLE} simulates devices. Unset it, or leave "
                f"--real out."
            )
        real.need_devices("--real")
        real.start()
        return
    os.environ.update(options.to_environment())
    simulation.activate(options)


def _hosts(arguments: argparse.Namespace, shape: cluster.Shape | None) -> gathering.Options:
    """What the options say of a report of several hosts."""
    folder, wait = arguments.report_dir, arguments.report_wait
    if arguments.verify and (folder is not None or cluster.is_elsewhere(shape)):
        raise UsageError(
            "edits are tried with all ranks, on one machine; --verify and `locus fix` can't be had where ranks run on "
            "other hosts, or are started by something else. Use --nproc alone."
        )
    if folder is not None:
        parts.check_folder("--report-dir", folder)
        folder = os.path.abspath(folder)
    if wait is None:
        return gathering.Options(folder, quiet=run.is_quiet(arguments))
    try:
        seconds = float(wait)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise UsageError(f"--report-wait {wait} is not a number of seconds. Use one from 0 to 86400.")
    return gathering.Options(folder, seconds, run.is_quiet(arguments))


def _steps(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--steps {text} is not a number of steps. Use a whole number from 1 on.")
    return int(text)


def write(observed: Observed, arguments: argparse.Namespace) -> None:
    """Writes the report where the options say."""
    fix = "" if observed.is_spread and arguments.nproc is None else fix_command(arguments)
    style = reports.style_of(arguments, fix)
    problems = reports.write(observed.report, observed.outputs, style)
    if arguments.output is None or problems:  # what could not be written must not be lost
        # On standard error as it was when the check began, whatever the program has put in its place.
        endings.to_stderr(reports.render(observed.report, reports.form_of(arguments), style, screen.look(2)))
    if problems:
        raise LocusError(" ".join(problems))


def fix_command(arguments: argparse.Namespace) -> str:
    """What writes the fixes of this check; "" where nothing can: code on the command line, some ranks for all."""
    target = run.target(arguments)
    if target.kind == "code" or arguments.ranks is not None:
        return ""
    words = run.given(arguments, ("nproc", "nnodes", *run.MACHINE, "steps", "real"))
    words += ["-m"] * (target.kind == "module")
    return shlex.join(["locus", "fix", "--apply", *words, target.name, *target.arguments])
