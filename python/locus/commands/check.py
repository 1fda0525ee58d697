"""`locus check`: runs a program on simulated CUDA devices and reports every tensor that is on the wrong one."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from locus import scratch
from locus.commands import run, several
from locus.errors import LocusError, UsageError
from locus.process import (
    children,
    cluster,
    endings,
    launching,
    notebooks,
    rank_reruns,
    reports,
    reruns,
    runner,
    screen,
    settings,
    simulation,
    standing_in,
    tracing,
    watched,
)
from locus.process.session import Session
from locus.program import alone, source
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
        "locus check [--devices N] [--card NAME] [--memory SIZE] [--rng device|cpu] [--dry] [--steps N] "
        f"[--format {'|'.join(reports.FORMS)}] [-o FILE] {' '.join(f'[--{form} FILE]' for form in reports.SIDE_FORMS)} "
        "[-q | -v] [--statistics] [--explain] [--ledger] "
        "[--baseline REPORT] [--verify [--max-runs N]] [--real] [--nproc N [--nnodes M] [--ranks auto|0,1,…]] "
        "[--allow-empty] "
        "(SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...] | --each PROGRAM ..."
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
    parser.add_argument("--trace", metavar="FILE", help="also write a trace, for Perfetto and Chrome's viewer")
    parser.add_argument("--each", action="store_true", help="check several programs: files, and folders of them")
    parser.epilog = EXIT_CODES


class Observed(NamedTuple):
    """A program that was checked."""

    report: Report
    outputs: list[reports.Output]
    outcome: Outcome | None
    """What came of trying the edits; None where that was not asked for, or where nothing was found."""


def execute(arguments: argparse.Namespace) -> int:
    """Runs and checks the program; the exit status that its verdict has (locus/engine/verdict.h)."""
    words = arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script
    if arguments.module is None and arguments.code is None and words:
        if arguments.each or several.is_folder_of_programs(words):
            return several.execute(arguments, words)
    return observe(arguments, lambda observed: _report(observed, arguments))


RESERVED_VARIABLE = "LOCUS_RESERVED_FILE"
"""Where `locus memory` has a check note what the allocators of the devices held at most."""


def _note_reserved() -> None:
    path = os.environ.get(RESERVED_VARIABLE)
    torch = sys.modules.get("torch")
    if path and torch is not None:
        held = {f"cuda:{i}": torch.cuda.max_memory_reserved(i) for i in range(torch.cuda.device_count())}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(held, file)


def _report(observed: Observed, arguments: argparse.Namespace) -> int:
    _note_reserved()
    write(observed, arguments)
    if observed.report.exit == _USAGE_ERROR:
        _tell_of_misplaced(arguments)
    return reports.judge(observed.report).exit


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
    shape = cluster.parse(arguments)
    options = run.machine(arguments, project, devices=max(2, shape.per_host if shape is not None else 0))
    if options.devices == 0 and not arguments.real:
        where = f"{project.file}: tool.locus.devices = 0" if arguments.devices is None else "--devices 0"
        raise UsageError(f"{where} leaves nothing to check: a machine without CUDA has one device only. Use 1 or more.")
    if shape is not None:
        cluster.check_devices(shape, options.devices)
    target = run.target(arguments)
    limit = _steps(arguments.steps)
    reports.style_of(arguments)  # what can't be meant is said before the program runs
    if limit is None and options.dry is not None:
        limit = DRY_STEPS
    max_runs = reruns.parse_max_runs(arguments.max_runs, arguments.verify)
    outputs = reports.outputs(arguments)
    earlier = reports.read_baseline(arguments.baseline) if arguments.baseline is not None else None
    if arguments.trace is not None:
        reports.check_writable("--trace", arguments.trace)
        os.environ[tracing.VARIABLE] = "1"
    if shape is not None:
        return _observe_ranks(shape, target, arguments, options, project, limit, outputs, earlier, finish)
    book = notebooks.opened(target.name) if target.kind == "notebook" else None
    verifier = None
    session = Session(target.name, target.arguments, limit, project)
    if options.dry is not None and arguments.steps is None:
        session.note_of_limit = f"a dry check ends after {DRY_STEPS} optimizer steps; --steps N takes another number"
    session.allow_empty = arguments.allow_empty
    session.folder = scratch.make()

    def make(end: End, finished: bool) -> Report:
        if finished:
            session.coverage.take_in(session.folder)
            children.take_in(session, session.folder)
            checking.judge(session, session.folder)
        return session.report(end, finished)

    def revive(report: Report) -> None:
        session.load()
        children.join(session, report, session.folder)

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
        if earlier is not None:
            report.compare(earlier, arguments.baseline)
        if verifier is not None and patience.came:
            finish(Observed(report, outputs, None))
            return End.by_signal(patience.came[0]).exit
        return finish(Observed(report, outputs, outcome))

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
                is_quiet(arguments),
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


def _observe_ranks(
    shape: cluster.Shape,
    target: runner.Target,
    arguments: argparse.Namespace,
    options: simulation.SimulationOptions,
    project: settings.Settings,
    limit: int | None,
    outputs: list[reports.Output],
    earlier: Report | None,
    finish: Callable[[Observed], int],
) -> int:
    """Starts the ranks, each of which checks itself, and makes one report of theirs; the exit code."""
    if arguments.real:
        raise UsageError(
            "--nproc simulates a device for each rank; it can't be had with --real. Leave one of them out."
        )
    chosen = cluster.parse_ranks(arguments.ranks, shape, options.dry is not None)
    if chosen is not None and arguments.verify:
        raise UsageError("edits are tried with all ranks; --ranks can't be had with --verify and `locus fix`.")
    os.environ.update(options.to_environment())
    if limit is not None:
        os.environ[children.STEPS_VARIABLE] = str(limit)
    session = Session(target.name, target.arguments, settings=project)
    session.allow_empty = arguments.allow_empty
    with children.gathering() as folder, endings.Patience() as patience:
        if chosen is None:
            roles = None
            end, codes = launching.launch(shape, target, patience)
        else:
            end, codes, roles = standing_in.launch(shape, chosen, target, patience, folder)
        watched.flush()
        for variable in options.to_environment():
            os.environ.pop(variable, None)  # this process only reports: it needs no devices
        session.load()
        children.take_in(session, folder)
        checking.judge(session, folder, codes)
        ran = shape.ranks if roles is None else len(roles.why)
        if not session.finding_count() and not checking.joined(session, folder):
            session.incomplete = _why_not_joined(ran, codes)
        if roles is not None:
            calls = children.files(folder, alone.CALLS)
            checking.compare(session, folder, calls, codes)
            session.cluster = roles.as_cluster(shape.hosts, session.bridge.journal_traffic(calls, source.line_text))
        report = session.report(end)
        for words in checking.drifts(session, folder):
            report.add_note(words)
        if arguments.trace is not None:
            tracing.write(arguments.trace, folder, json.loads(report.render("json")), own=False)
        outcome = None
        if arguments.verify and not patience.came:
            with patience.interruptible():
                outcome = _try_with_ranks(report, target, arguments, limit)
        if earlier is not None:
            report.compare(earlier, arguments.baseline)
        return finish(Observed(report, outputs, outcome))


def _try_with_ranks(
    report: Report, target: runner.Target, arguments: argparse.Namespace, limit: int | None
) -> Outcome | None:
    flag = {"module": ["-m"], "code": ["-c"]}.get(target.kind, ["--"])
    options = run.given(arguments, ("nproc", "nnodes", *run.MACHINE))
    return rank_reruns.verify(
        report,
        options,
        [*flag, target.name, *target.arguments],
        limit,
        reruns.parse_max_runs(arguments.max_runs, verify=True),
        is_quiet(arguments),
    )


def is_quiet(arguments: argparse.Namespace) -> bool:
    """Whether standard error takes a report that a machine reads, or nothing at all."""
    return bool(arguments.quiet or (arguments.format != "text" and arguments.output is None))


def _why_not_joined(nproc: int, codes: dict[int, int]) -> str:
    if failed := launching.describe_failures(codes):
        return f"{failed} before the ranks had met in torch.distributed.init_process_group(), so that none could go on"
    return (
        f"no rank has called torch.distributed.init_process_group(), so {nproc} copies of the program ran, each by "
        "itself. Call it, or leave --nproc out"
    )


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


def _steps(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"--steps {text} is not a number of steps. Use a whole number from 1 on.")
    return int(text)


def write(observed: Observed, arguments: argparse.Namespace) -> None:
    """Writes the report where the options say."""
    problems = reports.write(observed.report, observed.outputs, reports.style_of(arguments, fix_command(arguments)))
    if arguments.output is None or problems:  # what could not be written must not be lost
        _show(observed.report, arguments)
    if problems:
        raise LocusError(" ".join(problems))


def _show(report: Report, arguments: argparse.Namespace) -> None:
    """On standard error as it was when the check began, whatever the program has put in its place."""
    style = reports.style_of(arguments, fix_command(arguments))
    endings.to_stderr(reports.render(report, reports.form_of(arguments), style, screen.look(2)))


def fix_command(arguments: argparse.Namespace) -> str:
    """What writes the fixes of this check; "" where nothing can: code on the command line, some ranks for all."""
    target = run.target(arguments)
    if target.kind == "code" or arguments.ranks is not None:
        return ""
    words = run.given(arguments, ("nproc", "nnodes", *run.MACHINE, "steps", "real"))
    words += ["-m"] * (target.kind == "module")
    return shlex.join(["locus", "fix", "--apply", *words, target.name, *target.arguments])
