"""Runs of a program with edits, and what they say: did it come to its end, what is still found, does it print what it
should? Each run counts.

Judges one run; which edits to try next is for locus.fixing.verifying to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from locus.fixing import patches
from locus.fixing.oracle import Expected
from locus.fixing.rerun import Finding, Place, Rerun, RunAgain, Words
from locus.program import source

PRINTS_ELSE = "the program prints something else with it"

_SHORT = 20.0
"""A program that takes no longer than these seconds is run to its end: what an edit breaks may come late."""

Texts = dict[str, bytes]
"""New texts, by path."""


class State(NamedTuple):
    """A program with some edits made, and what it did with them."""

    files: dict[str, patches.Text]
    """What the last edits were made to."""
    texts: Texts
    rerun: Rerun
    prints_right: bool = True
    """False: it prints something else than it should. Also True where nobody can say."""

    @property
    def findings(self) -> list[Finding]:
        return self.rerun.report["findings"] if self.rerun.report is not None else []


class Trials:
    """The runs of one program."""

    def __init__(
        self,
        report: Words,
        files: dict[str, patches.Text],
        run_again: RunAgain,
        max_runs: int,
        has_time: Callable[[], bool],
        printed: str | None,
    ):
        """printed: what the checked program wrote to standard output, if that is known."""
        self.report, self.files, self._run_again = report, files, run_again
        self._max_runs, self._has_time = max_runs, has_time
        self.exit, self._steps = report["program"]["exit"], report["program"]["steps"]
        steps = [use["first_step"] for f in report["findings"] for use in f["uses"]]
        self._limit = max(steps, default=0) + 2  # one step more: what follows a step belongs to it
        if report["program"].get("seconds", 0.0) < _SHORT:
            self._limit = max(self._limit, self._steps + 1)
        self.runs = 0
        self._first = None if printed is None else Expected(printed, is_part=self.exit != 0)
        self._shares_rng = False
        self._references: dict[frozenset[tuple[str, bytes]], _Reference] = {}

    def is_spent(self) -> str:
        """Why there are no more runs; "" where there may be."""
        if self.runs >= self._max_runs:
            only = self._max_runs == 1
            return f"{'the one run is' if only else f'all {self._max_runs} runs are'} used up (--max-runs)"
        return "" if self._has_time() else "the time for further runs is used up"

    def run(self, files: dict[str, patches.Text], texts: Texts, unlike: Texts | None) -> State:
        """Runs the program with other texts. `unlike`: those with which it rightly prints something else than before
        (a layer that gets known to its model is trained from then on); None where its output can't be known."""
        rerun = self._once(texts, self._shares_rng)
        if self._first is None or unlike is None or rerun.printed is None or self._failure_of(rerun):
            return State(files, texts, rerun)
        if not self._shares_rng and self._meets(self._first, rerun):
            return State(files, texts, rerun)
        return self._compare(State(files, texts, rerun), unlike)

    def _once(self, texts: Texts, shares_rng: bool) -> Rerun:
        self.runs += 1
        return self._run_again(texts, self._limit, shares_rng)

    # -- the output

    def _compare(self, state: State, unlike: Texts) -> State:
        """Compares with a run of the program as it was, in which CPU and devices draw from one generator: a draw that
        an edit moves to a device is the same draw there."""
        reference = self._reference(unlike)
        if reference is None:  # no run is left for it
            return state._replace(prints_right=False)
        if reference.expected is None or self._meets(reference.expected, state.rerun):
            return state
        if not self._shares_rng:
            self._shares_rng = True
            if self.is_spent():
                return state._replace(prints_right=False)
            state = state._replace(rerun=self._once(state.texts, True))
            if self._failure_of(state.rerun) or self._meets(reference.expected, state.rerun):
                return state
        if not reference.is_steady_known and not self.is_spent():
            again = self._once(unlike, True).printed
            reference.is_steady_known = True
            if again is None or not reference.expected.learn(again):
                reference.expected = None
                return state
        return state._replace(prints_right=self._meets(reference.expected, state.rerun))

    def _reference(self, texts: Texts) -> _Reference | None:
        key = frozenset(texts.items())
        if key not in self._references:
            if self.is_spent():
                return None
            rerun = self._once(texts, True)
            self._references[key] = _Reference(
                None if rerun.printed is None else Expected(rerun.printed, rerun.exit != 0)
            )
        return self._references[key]

    def _meets(self, expected: Expected, rerun: Rerun) -> bool:
        was_stopped = rerun.report is not None and rerun.report["program"]["steps"] >= self._limit
        return rerun.printed is None or expected.is_met(rerun.printed, was_stopped)

    # -- what a run says

    def failure(self, state: State) -> str:
        """Why the program did not do what it did before; "" where it did."""
        return self._failure_of(state.rerun)

    def _failure_of(self, run: Rerun) -> str:
        if run.deadline:
            return f"the run with the fixes did not end within {run.deadline:,.0f} s"
        if run.report is None:
            return f"the program did not come to its end{': ' + run.error if run.error else ''}"
        if run.exit not in (0, self.exit):
            return f"the program ended with {run.error or f'exit code {run.exit}'}"
        if run.report["program"]["steps"] < min(self._steps, self._limit):
            return f"the program ended early with {run.error}" if run.exit else "the program made fewer steps"
        return ""

    def troubles(self, state: State, tried: Iterable[Finding]) -> list[Finding]:
        """The findings that should not be there: those that were to be fixed, and new ones."""
        wanted = list(tried)
        untried = [f for f in self.report["findings"] if not any(f is each for each in wanted)]
        return [f for f in state.findings if not any(self.is_same(f, known, state) for known in untried)]

    def is_bad(self, state: State) -> bool:
        """Whether an edit does harm: the program fails, prints something else, or has a mistake that it had not."""
        return bool(self.failure(state)) or not state.prints_right or bool(self.troubles(state, []))

    def remains(self, finding: Finding, state: State) -> bool:
        return any(self.is_same(each, finding, state) for each in state.findings)

    def is_same(self, found: Finding, known: Finding, state: State) -> bool:
        """Whether a finding of a run is one that was known before."""
        if found["id"] == known["id"]:
            return True
        places = {(use["file"], use["line"], use["op"]) for use in known["uses"]}
        return any((use["file"], self.line(use, state), use["op"]) in places for use in found["uses"])

    def line(self, place: Place, state: State) -> int:
        """The line that a place of this run has in the files as they were."""
        return self.line_of(place["file"], place["line"], state)

    def line_of(self, file: str, line: int, state: State) -> int:
        path = source.path_of(file)
        new = state.texts.get(path)
        return line if new is None else patches.original_line(self.files[path].raw, new, line)


class _Reference:
    """What a program as it was prints where CPU and devices draw from one generator."""

    def __init__(self, expected: Expected | None):
        self.expected = expected
        """None: it can't be known."""
        self.is_steady_known = False
