"""What `pytest --locus` does: the machine before the first test file, one check from then on, findings by test.

The check begins when PyTorch is imported, so that a suite without it costs nothing. Which tests run, and how failures
are shown, stays pytest's business: a test with findings fails with their text as its message.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from locus import __version__, _startup, scratch
from locus.process import children, endings, reports, screen
from locus.process.companion import Companion
from locus.process.session import Session
from locus.program.end import End
from locus.pytest import asked, causes, ends, markers
from locus.pytest.seen import ReportSoFar

if TYPE_CHECKING:
    import argparse

    from locus._bridge import Report
    from locus.program import shapes

_SCREEN = screen.Screen(terminal=False, color=False, width=100, links=False)
_pending = pytest.StashKey[str]()
_found = pytest.StashKey["list[shapes.Finding]"]()
_refused = pytest.StashKey[str]()
_heard = pytest.StashKey[BaseException]()
_said = pytest.StashKey[str]()


class Checks:
    """The plugin proper; one for each process that runs tests."""

    def __init__(self, config: pytest.Config, options: argparse.Namespace):
        self.settings = asked.find_settings(config)
        self.machine = asked.machine(options, self.settings)
        self.report_path = options.locus_report
        if self.report_path:
            asked.check_report_path(self.report_path)
        self._config = config
        self.session: Session = None  # type: ignore[assignment]  # until begin()
        self.folder = scratch.make()
        self._companion = Companion(self.folder)
        self._companion.start()
        self.news = children.News(self.folder)
        self.late: list[str] = []
        """What no test's report has: of a conftest.py, of processes that outlived their tests, of a test that ended the
        run."""
        self._told = 0
        self._has_summary = False
        self._item: pytest.Item | None = None
        self._run: pytest.Session | None = None
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
        ends.listen(self._end_at_once)

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
        self.session.ignored_codes = tuple(markers.ignored_codes(item)) if item is not None else ()
        report, text = self.read(), self.words()
        self.session.bridge.clear_findings()
        self.news.forget_own()
        if item is None:
            self.causes.add_outside(report["findings"])
        elif markers.argument(item, "policy", "collect") != "collect":
            return ""  # they were warned about
        else:
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
        call = getattr(report, "call", None)
        if self.session is not None and call is not None and call.excinfo is not None:
            ends.note_lost(call.excinfo.value)
        text = self._take(None)
        if text and isinstance(collector, pytest.Module):
            report.outcome, report.longrepr, report.result = "failed", text, []
        elif text:
            self.late.append(text)  # of a conftest.py
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            try:
                markers.check(item)
            except pytest.UsageError as error:
                if not self.is_worker:
                    raise
                item.stash[_refused] = str(error)  # xdist takes an error here for a crash
                continue
            needed = markers.argument(item, "devices", 0)
            if needed > self.machine.devices:
                reason = f"needs {needed} devices; run with --locus-devices {needed}"
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        if _refused in item.stash:
            pytest.fail(item.stash[_refused], pytrace=False)
        self._item = item
        if self.session is not None:
            policy = markers.argument(item, "policy", "collect")
            self._take_late()
            self.session.begin_part()
            self.session.set_policy(policy)
            children.set_watched(self.folder, policy == "collect")
        try:
            result = yield
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

    @pytest.hookimpl(specname="pytest_runtest_makereport")
    def pytest_runtest_makereport_of_skipped(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """A test with findings fails, skipped or not. Before the report is made, and after unittest has had its say,
        which puts its own skips in place of what the test ended with."""
        if call.excinfo is None or not isinstance(call.excinfo.value, pytest.skip.Exception):
            return
        self._note(item, call.excinfo.value)
        text = item.stash.get(_said, "")
        if text:
            call.excinfo = pytest.CallInfo.from_call(lambda: pytest.fail(text, pytrace=False), call.when).excinfo

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, object]:
        """The findings travel with the report, from xdist's workers too."""
        report = yield
        report.locus_findings = item.stash.get(_found, []) if call.when == "teardown" else []
        said = item.stash.get(_said, "")
        report.locus_failed = bool(said) and call.excinfo is not None and str(call.excinfo.value) == said
        if report.locus_failed:  # the one line of the short summary
            report.longrepr.reprcrash.message = causes.in_short(item.stash.get(_found, []))
            if not self.is_worker and self._config.get_terminal_writer().hasmarkup:
                report.longrepr = causes.Colored(report.longrepr)
        report.locus_ops = self.session.part_ops() if self.session is not None and call.when == "teardown" else 0
        report.locus_on_device = bool(report.locus_ops) and self.session.uses_device()
        report.locus_incomplete = self.session.faulty() if report.locus_ops else ""
        item.stash[_said] = ""
        if call.when == "teardown":
            self._item = None
        return report

    def _note(self, item: pytest.Item, error: BaseException) -> None:
        """A refusal that no rule foresaw, in a test that did not mean it, is a finding."""
        meant = item.get_closest_marker("xfail") is not None or markers.argument(item, "policy", "collect") != "collect"
        if self.session is None or meant or item.stash.get(_heard, None) is error:
            return
        item.stash[_heard] = error
        ends.note(error)

    def _fail(self, item: pytest.Item, text: str) -> None:
        if text:
            item.stash[_said] = text
            pytest.fail(text, pytrace=False)

    def _add_section(self, item: pytest.Item, when: str, text: str, error: BaseException) -> None:
        if text and isinstance(error, (pytest.exit.Exception, KeyboardInterrupt)):
            self.late.append(text)  # the run ends here, without a report of this test
        elif text and isinstance(error, ends.SKIPS):
            item.stash[_said] = "\n\n".join(one for one in (item.stash.get(_said, ""), text) if one)
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
        self._settle()  # of other plugins' summaries
        if self._config.option.collectonly and not self.late:
            return
        self._told, self._has_summary = len(self.late), True
        words = self._words()
        if self.causes.explained:
            terminalreporter.section(f"locus: {self.causes.title()}")
            for line, marks in self.causes.lines():
                terminalreporter.write_line(line, **marks)
        if self.late:
            terminalreporter.section("locus: in no test's report")
            terminalreporter.write_line("\n\n".join(self.late))
        ops = f" ({self.ops:,} op{'s' * (self.ops != 1)} checked)" if self.ops else ""
        terminalreporter.write_line(f"locus: {words}{ops}")

    def _words(self) -> str:
        if self.causes.findings:
            found, tests = len(self.causes.findings), len(self.causes.explained)
            places = [f"in {tests} test{'s' if tests > 1 else ''}"] if tests else []
            places += ["outside of tests"] if self.causes.outside else []
            return f"{found} finding{'s' if found > 1 else ''} {' and '.join(places)}"
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

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """xdist: what a worker has to say at its end."""
        said = getattr(node, "workeroutput", {})
        self.late += [text for text in said.get("locus_late", []) if text not in self.late]
        self.causes.add_outside(said.get("locus_outside", []))

    # --- Its end, and what comes after it ---

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._run = session
        self._settle()
        if self.is_worker:
            said = session.config.workeroutput  # type: ignore[attr-defined]  # xdist's
            said["locus_late"], said["locus_outside"] = self.late, self.causes.outside
            self._told, self._has_summary = len(self.late), True

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if os.getpid() != self._process:
            return
        self._settle()
        self._tell_rest()
        scratch.remove(self.folder)
        self._companion.dismiss()
        ends.at_exit(self._end_after_all)

    def _settle(self) -> None:
        """Takes in what no test has reported. The run fails for it, and the JSON report has it."""
        if children.is_child():
            return
        item, self._item = self._item, None
        if item is not None:  # the run was ended in it
            text = self._take(item)
            self.late += [text] if text else []
            for finding in item.stash.get(_found, []):
                self.causes.add_finding(item.nodeid, finding)
            if self.is_worker and self._run is not None:
                self.causes.add_outside(item.stash.get(_found, []))
        self._take_late()
        if self._run is None or self.is_worker:
            return
        if self.late and self._run.exitstatus == pytest.ExitCode.OK:
            self._run.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._write_report(int(self._run.exitstatus))

    def _write_report(self, exit_code: int) -> None:
        if self.report_path and not self.is_worker:
            with open(self.report_path, "wb") as file:
                file.write(self._report(exit_code).render("json"))

    def _tell_rest(self) -> bool:
        """Whether there was anything that the summary did not have."""
        rest = self.late[self._told :]
        self._told = len(self.late)
        if rest:
            since = ", with what came after the summary" if self._has_summary else ""
            endings.to_stderr(("\n\n".join(rest) + f"\nlocus: {self._words()}{since}\n").encode())
        return bool(rest)

    def _end_after_all(self) -> bool:
        """At the interpreter's end; whether the exit status is to say what pytest's could not any more."""
        if os.getpid() != self._process or self._run is None:
            return False
        was_green = self._run.exitstatus == pytest.ExitCode.OK
        self._settle()
        return self._tell_rest() and was_green

    def _end_at_once(self, end: End) -> int:
        """os._exit(), or another program in pytest's place: pytest says nothing any more, also of the tests before."""
        self._settle()
        if self._has_summary or not self.causes.findings:
            return end.exit or int(self._tell_rest())
        capture = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=False)
        code = end.exit or 1
        text = reports.render(self._report(code), "findings", on=_SCREEN).rstrip(b"\n")
        words = f"locus: {self._words()}; pytest was ended before its own report"
        endings.to_stderr(text + f"\n{words}\n".encode())
        self._told = len(self.late)
        self._write_report(code)
        return code
