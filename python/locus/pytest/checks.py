"""What `pytest --locus` does: the machine before the first test file, one check from then on, findings by test.

The check begins when PyTorch is imported, so that a suite without it costs nothing. Which tests run, and how failures
are shown, stays pytest's business: a test with findings fails with their text as its message.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from locus import __version__, _startup, scratch
from locus.errors import UsageError
from locus.process import children, pages, reports, screen, settings, simulation
from locus.process.companion import Companion
from locus.process.session import Session
from locus.pytest import causes
from locus.pytest.seen import ReportSoFar
from locus.watch import uncaught

if TYPE_CHECKING:
    import argparse

    from locus._bridge import Report
    from locus.program import shapes

POLICIES = ("collect", "raise", "warn", "move")
"""What a marker may ask for."""

_SCREEN = screen.Screen(terminal=False, color=False, width=100, links=False)
_pending = pytest.StashKey[str]()
_found = pytest.StashKey["list[shapes.Finding]"]()
_refused = pytest.StashKey[str]()
_said = pytest.StashKey[str]()

Value = TypeVar("Value")


class Checks:
    """The plugin proper; one for each process that runs tests."""

    def __init__(self, config: pytest.Config, options: argparse.Namespace):
        self.settings = _settings(config)
        self.machine = _machine(options, self.settings)
        self.report_path = options.locus_report
        if self.report_path:
            _check_report_path(self.report_path)
        self._config = config
        self.session: Session = None  # type: ignore[assignment]  # until begin()
        self.folder = scratch.make()
        self._companion = Companion(self.folder)
        self._companion.start()
        self.news = children.News(self.folder)
        self.late: list[str] = []
        """What was found at no test's time: in a conftest.py, or by processes that outlived their tests."""
        self._process = os.getpid()
        self.causes = causes.Causes()
        self.ops = 0
        self.on_device = False
        self.incomplete = ""
        self.not_passed: set[str] = set()
        os.environ.update(self.machine.to_environment())
        _startup.activate_with_torch(self.machine, then=self._start)

    @property
    def is_worker(self) -> bool:
        """Whether this is a process of xdist's, which says so only when the options have been read."""
        return hasattr(self._config, "workerinput")

    def _start(self) -> None:
        self.session = Session("pytest", sys.argv[1:], settings=self.settings)
        self.session.start()
        children.begin(self.session, self.folder)

    # --- What the session knows ---

    def report_so_far(self) -> ReportSoFar:
        return ReportSoFar(self.read, self.words)

    def read(self) -> shapes.Report:
        if self.session is None:
            return {"findings": [], "transfers": [], "syncs": [], "memory": {}, "program": {"ops": 0, "steps": 0}}
        report: shapes.Report = json.loads(self.session.json(finished=False))
        return report

    def words(self) -> str:
        if self.session is None:
            return ""
        text = reports.render(self.session.report(finished=False), "findings", on=_SCREEN)
        return text.decode("utf-8", "replace").rstrip("\n")

    def _take(self, item: pytest.Item | None) -> str:
        """The text of what was found since the last time, which is forgotten; "" for nothing."""
        if self.session is None:
            return ""
        if not children.is_child():
            self.news.take_in(self.session)
        if not self.session.finding_count():
            return ""
        self.session.ignored_codes = tuple(_ignored_codes(item)) if item is not None else ()
        report, text = self.read(), self.words()
        self.session.bridge.clear_findings()
        self.news.forget_own()
        if item is not None and _argument(item, "policy", "collect") != "collect":
            return ""  # they were warned about
        if item is not None and report["findings"]:
            item.stash.setdefault(_found, []).extend(report["findings"])
        return text if report["findings"] else ""

    def _take_late(self) -> None:
        """Between tests: it is no fault of the next one."""
        text = self._take(None)
        if text:
            self.late.append(text)

    # --- Test by test ---

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, object]:
        """A mistake at the top of a test file belongs to that file."""
        report = yield
        text = self._take(None)
        if text and isinstance(collector, pytest.Module):
            report.outcome, report.longrepr, report.result = "failed", text, []
        elif text:
            self.late.append(text)  # of a conftest.py
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            try:
                _check_marker(item)
            except pytest.UsageError as error:
                if not self.is_worker:
                    raise
                item.stash[_refused] = str(error)  # xdist takes an error here for a crash
                continue
            needed = _argument(item, "devices", 0)
            if needed > self.machine.devices:
                reason = f"needs {needed} devices; run with --locus-devices {needed}"
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        if _refused in item.stash:
            pytest.fail(item.stash[_refused], pytrace=False)
        if self.session is not None:
            policy = _argument(item, "policy", "collect")
            self._take_late()
            self.session.begin_part()
            self.session.set_policy(policy)
            children.set_watched(self.folder, policy == "collect")
        try:
            result = yield
        except pytest.skip.Exception:
            self._fail(item, self._take(item))
            raise
        except BaseException as error:
            self._note(item, error)
            self._add_section(item, "setup", self._take(item), error)
            raise
        # The test itself still runs: it may have mistakes of its own.
        item.stash[_pending] = self._take(item)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        in_setup = item.stash.get(_pending, "")
        try:
            result = yield
        except BaseException as error:
            self._note(item, error)
            self._add_section(item, "setup", in_setup, error)
            self._add_section(item, "call", self._take(item), error)
            raise
        texts = [f"{in_setup}\n   = in a fixture of this test" if in_setup else "", self._take(item)]
        self._fail(item, "\n\n".join(text for text in texts if text))
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            result = yield
        except BaseException as error:
            self._note(item, error)
            self._add_section(item, "teardown", self._take(item), error)
            raise
        finally:
            if self.session is not None:
                self.session.set_policy("collect")
                children.set_watched(self.folder, True)
        self._fail(item, self._take(item))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, object]:
        """The findings travel with the report, from xdist's workers too."""
        report = yield
        report.locus_findings = item.stash.get(_found, []) if call.when == "teardown" else []
        report.locus_failed = call.excinfo is not None and str(call.excinfo.value) == item.stash.get(_said, None)
        if report.locus_failed:  # the one line of the short summary
            report.longrepr.reprcrash.message = causes.in_short(item.stash.get(_found, []))
            if not self.is_worker and self._config.get_terminal_writer().hasmarkup:
                report.longrepr = causes.Colored(report.longrepr)
        report.locus_ops = self.session.part_ops() if self.session is not None and call.when == "teardown" else 0
        report.locus_on_device = bool(report.locus_ops) and self.session.uses_device()
        report.locus_incomplete = self.session.faulty() if report.locus_ops else ""
        return report

    def _note(self, item: pytest.Item, error: BaseException) -> None:
        """A refusal that no rule foresaw, in a test that did not mean it, is a finding."""
        meant = item.get_closest_marker("xfail") is not None or _argument(item, "policy", "collect") != "collect"
        if self.session is not None and not meant:
            uncaught.note(error)

    def _fail(self, item: pytest.Item, text: str) -> None:
        if text:
            item.stash[_said] = text
            pytest.fail(text, pytrace=False)

    def _add_section(self, item: pytest.Item, when: str, text: str, error: BaseException) -> None:
        if text and isinstance(error, (pytest.exit.Exception, KeyboardInterrupt)):
            self.late.append(text)  # the run ends here, without a report of this test
        elif text:
            item.add_report_section(when, "locus", text)

    # --- The whole run ---

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ops += getattr(report, "locus_ops", 0)
        self.on_device = self.on_device or getattr(report, "locus_on_device", False)
        self.incomplete = self.incomplete or getattr(report, "locus_incomplete", "")
        if report.failed:
            self.not_passed.add(report.nodeid)
            self.causes.add_report(report)
        elif report.skipped and hasattr(report, "wasxfail"):
            self.causes.add_expected(report.nodeid)
        for finding in getattr(report, "locus_findings", []):
            self.causes.add_finding(report.nodeid, finding)

    def pytest_report_header(self) -> str:
        memory = self.machine.memory_text()
        count = self.machine.devices
        return f"locus: {__version__}, {count} simulated CUDA device{'s' if count > 1 else ''} of {memory}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._config.option.collectonly:
            return
        words = self._words()
        if self.causes.explained:
            terminalreporter.section(f"locus: {self.causes.title()}")
            for line, marks in self.causes.lines():
                terminalreporter.write_line(line, **marks)
        if self.late:
            terminalreporter.section("locus: found outside of tests")
            terminalreporter.write_line("\n\n".join(self.late))
        ops = f" ({self.ops:,} op{'s' * (self.ops != 1)} checked)" if self.ops else ""
        terminalreporter.write_line(f"locus: {words}{ops}")

    def _words(self) -> str:
        if self.causes.findings:
            found, tests = len(self.causes.findings), len(self.causes.explained)
            return f"{found} finding{'s' if found > 1 else ''} in {tests} test{'s' if tests > 1 else ''}"
        if not self.ops:
            return "nothing was checked: no test called an operator"  # PyTorch may not even be there
        if self.on_device and self.not_passed and not self.incomplete:
            count = len(self.not_passed)
            were = "were" if count > 1 else "was"
            return f"nothing found; {count} test{'s' * (count > 1)} did not pass, and {were} checked up to there"
        return reports.judge(self._report(0)).words

    def _report(self, exit_code: int) -> Report:
        """The report of all tests."""
        program = {
            "script": "pytest", "argv": sys.argv[1:], "exit": exit_code, "ops": self.ops, "on_device": self.on_device,
            "incomplete": self.incomplete,
        }  # fmt: skip
        found = sorted(self.causes.findings.values(), key=lambda f: (f["cause"]["file"], f["cause"]["line"]))
        return reports.load(json.dumps({"version": 1, "findings": found, "program": program}).encode())

    def pytest_unconfigure(self) -> None:
        if os.getpid() == self._process:
            scratch.remove(self.folder)
            self._companion.dismiss()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """xdist: what a worker has to say at its end."""
        self.late += getattr(node, "workeroutput", {}).get("locus_late", [])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not children.is_child():
            self._take_late()
        if self.is_worker:
            session.config.workeroutput["locus_late"] = self.late  # type: ignore[attr-defined]  # xdist's
        elif self.late and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self.report_path or self.is_worker:
            return
        with open(self.report_path, "wb") as file:
            file.write(self._report(int(session.exitstatus)).render("json"))


def _settings(config: pytest.Config) -> settings.Settings:
    try:
        return settings.find(config.rootpath)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _machine(options: argparse.Namespace, project: settings.Settings) -> simulation.SimulationOptions:
    given = options.locus_devices
    devices = given if given is not None else 2 if project.devices is None else project.devices
    if not str(devices).isdecimal() or not 1 <= int(devices) <= simulation.MAX_DEVICES:
        where = f"--locus-devices {devices}" if given is not None else f"{project.file}: tool.locus.devices = {devices}"
        raise pytest.UsageError(
            f"{where} is not a number of devices to test on. Use a whole number from 1 to {simulation.MAX_DEVICES}."
        )
    memory = options.locus_memory or project.memory
    try:
        dry = simulation.check_dry(answers=project.dry_answers) if options.locus_dry else None
        rng = options.locus_rng or project.rng or "device"
        return simulation.check_options(int(devices), memory, rng, project.card, dry)
    except UsageError as error:
        raise pytest.UsageError(f"--locus-{error}") from None


def _check_report_path(path: str) -> None:
    try:
        reports.check_writable("--locus-report", path)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _argument(item: pytest.Item, name: str, default: Value) -> Value:
    """What the nearest marker that speaks of it says."""
    for mark in item.iter_markers("locus"):
        if name in mark.kwargs:
            given: Value = mark.kwargs[name]
            return given
    return default


def _ignored_codes(item: pytest.Item) -> list[str]:
    codes: list[str] = []
    for mark in item.iter_markers("locus"):
        ignore = mark.kwargs.get("ignore", [])
        codes += [ignore] if isinstance(ignore, str) else list(ignore)
    return codes


def _check_marker(item: pytest.Item) -> None:
    """A marker that can't be meant is said before any test runs."""

    def refuse(problem: str) -> None:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.locus: {problem}")

    for mark in item.iter_markers("locus"):
        if mark.args:
            refuse(f"takes no positional arguments, got {mark.args!r}. Use policy=, ignore= or devices=.")
        for name, value in mark.kwargs.items():
            if name == "policy":
                if value not in POLICIES:
                    refuse(f"policy={value!r} is not known. Use {' or '.join(map(repr, POLICIES))}.")
            elif name == "ignore":
                for code in [value] if isinstance(value, str) else value:
                    if code not in pages.codes():
                        refuse(f"ignore={code!r} is no code. `locus codes` lists them.")
            elif name == "devices":
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= simulation.MAX_DEVICES:
                    refuse(f"devices={value!r} is not a number of devices.")
            else:
                refuse(f"{name}= is not known. Use policy=, ignore= or devices=.")
