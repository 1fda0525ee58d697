"""`%load_ext locus`: `%%locus` checks a cell, `%locus where model` and `%locus devices 2` for what is around it.

A checked cell runs as any other, on simulated devices; what was found stands under it. Cells without the mark run
unchecked: a mistake raises PyTorch's own error there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from locus import markup
from locus._load import load_bridge
from locus.api import simulating
from locus.errors import LocusError, UsageError
from locus.process import reports, screen, settings, simulation
from locus.process.session import Session
from locus.program import cells
from locus.watch import uncaught

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_SCREEN = screen.Screen(terminal=False, color=True, width=100, links=False)
_USAGE = "%%locus above a cell checks it; %locus where NAME, %locus history NAME, %locus devices N [MEMORY]"
_DEVICES = 2


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What `%load_ext locus` does."""
    shell.register_magics(LocusMagics)


@magics_class
class LocusMagics(Magics):  # type: ignore[misc]  # IPython has no types
    """The magics of Locus."""

    _session: Session | None = None

    @line_cell_magic  # type: ignore[untyped-decorator]
    def locus(self, line: str, cell: str | None = None) -> object:
        """%%locus checks the cell below it. %locus where NAME, %locus history NAME, %locus devices N [MEMORY]."""
        try:
            if cell is not None:
                self._check(line.strip(), cell)
                return None
            return self._look(line.split())
        except LocusError as error:
            print(f"locus: error: {error}")
            return None

    def _look(self, words: list[str]) -> object:
        if len(words) >= 2 and words[0] in ("where", "history"):
            from locus.api import looking  # it needs PyTorch

            value = self.shell.ev(" ".join(words[1:]))
            return getattr(looking, words[0])(value, show=False)
        if words and words[0] == "devices" and len(words) in (2, 3) and words[1].isdecimal():
            _simulate(int(words[1]), words[2] if len(words) == 3 else None)
            print(f"locus: {words[1]} simulated CUDA device{'s' * (words[1] != '1')}")
            return None
        said = f"%locus {' '.join(words)} is not known" if words else "%locus alone says nothing"
        raise UsageError(f"{said}. {_USAGE}")

    def _check(self, line: str, cell: str) -> None:
        if line:
            raise UsageError(f"%%locus {line}: nothing stands behind it. {_USAGE}")
        session = self._begin()
        session.begin_part()
        session.set_policy("collect")
        before = cells.numbers()
        # The cell is in the way of being run, under its own number; what it has in it would be given the next one.
        following = self.shell.execution_count
        self.shell.execution_count = number = list(before.values())[-1] if before else following
        try:
            # The first line is there again, so that lines count as they are seen.
            result = self.shell.run_cell(f"# %%locus\n{cell}", store_history=False)
            uncaught.note(result.error_in_exec)
        finally:
            self.shell.execution_count = following
            session.set_policy("raise")
        for file in cells.numbers().keys() - before.keys():
            cells.note(file, number)
        report = reports.load(cells.named(session.report(finished=False).render("json").decode()).encode())
        if report.finding_count:
            text = reports.render(report, "text", reports.Style(), _SCREEN).decode("utf-8", "replace")
            display({"text/html": markup.colored(text), "text/plain": markup.plain(text)}, raw=True)
        else:
            print(f"locus: {reports.judge(report).words}")

    def _begin(self) -> Session:
        if LocusMagics._session is None:
            if simulation.active_options() is None:
                project = settings.find()
                _simulate(project.devices or _DEVICES, project.memory, project.card)
            LocusMagics._session = Session("notebook", settings=settings.find())
            LocusMagics._session.start()
        return LocusMagics._session


def _simulate(devices: int, memory: str | int | None, card: str | None = None) -> None:
    load_bridge()
    simulating.simulate(devices=devices, memory=memory, card=card)
