"""Which edits of a report mend the program: all of them are tried together in one more run; where something is still
wrong, the ones at fault are exchanged for another edit, or left out. What stays is verified.

Decides; the runs themselves are made by locus.process.rerun_server, the texts by locus.fixing.patches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from locus.fixing import patches
from locus.fixing.patches import Edit
from locus.fixing.rerun import Rerun
from locus.program import source

MENDED_BY_OTHERS = "mended by the edits of the other findings"
"""The note of a finding that needs no edit of its own."""

MAX_RUNS = 16
"""How often a program is run again at most, where nobody says otherwise."""

_MAX_LAYERS = 4


@dataclass
class Candidate:
    """A finding and the edits that could mend it, best first."""

    finding: dict[str, Any]
    edits: list[Edit]
    layer: int = 0
    """0: of the first run; n: it showed when those of n - 1 were mended."""
    why: str = ""
    """Why there is no verified edit."""
    verified: bool = False
    touched: list[tuple[str, int]] = field(default_factory=list)
    """The lines (of the files as they were) that its edits change."""

    @property
    def edit(self) -> Edit | None:
        return self.edits[0] if self.edits else None


class State(NamedTuple):
    """Files with some edits made, and what the program did with them."""

    files: dict[str, patches.Text]
    texts: dict[str, bytes]
    rerun: Rerun | None


@dataclass
class Outcome:
    """What came of it."""

    candidates: list[Candidate]
    files: dict[str, patches.Text]
    """The files as they were."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """The files with the verified edits."""
    changed: list[str] = field(default_factory=list)
    """Files that are not what they were when the program ran; their edits are not tried."""
    runs: int = 0

    @property
    def mended(self) -> bool:
        return all(candidate.verified for candidate in self.candidates)

    def amended(self, report: dict[str, Any]) -> dict[str, Any]:
        """The report with its fixes as they are now, and with findings that only the second run has shown."""
        hunks = {path: patches.hunks(self.files[path], raw) for path, raw in self.texts.items()}
        findings = []
        for candidate in self.candidates:
            finding = dict(candidate.finding)
            if candidate.verified:  # without an edit of its own where those of others are enough
                notes = {edit["line"]: edit["note"] for edit in candidate.edits[:1]}
                finding["fixes"] = [
                    {**hunk, "verified": True, "note": notes.get(hunk["line"], "")}
                    for path, each in hunks.items()
                    for hunk in each
                    if any(file == path and patches.covers(hunk, line) for file, line in candidate.touched)
                ]
            if candidate.verified and not candidate.touched:
                finding["notes"] = [*finding["notes"], MENDED_BY_OTHERS]
            if candidate.layer:
                finding["notes"] = [*finding["notes"], "it showed when the other findings were mended"]
            findings.append(finding)
        return {**report, "findings": findings}


def verify(
    report: dict[str, Any],
    rerun: Callable[[dict[str, bytes], int], Rerun],
    max_runs: int = MAX_RUNS,
    has_time: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Tries the edits of a report. `rerun` runs the program with other texts, to a number of optimizer steps; so many
    times at most, and as long as there is time."""
    findings = report["findings"]
    files = _read_files(_wanted(findings))
    changed = [path for path, text in files.items() if not _is_as_known(path, text)]
    for path in changed:
        del files[path]
    candidates = [Candidate(finding, _edits(finding, files)) for finding in findings]
    search = _Search(report, files, rerun, max_runs, has_time)
    state = search.settle(candidates)
    if state.rerun is not None:
        # What had no edit of its own may be gone with those of the others.
        _accept([c for c in candidates if not c.verified and not search.remains(c, state)])
    outcome = Outcome(candidates + search.shown, files, state.texts, changed, search.runs)
    for candidate in outcome.candidates:
        edited = [source.path_of(fix["file"]) for fix in candidate.finding["fixes"]]
        if any(path in changed for path in edited):
            candidate.why = "the file has changed since the program ran"
        elif edited and not candidate.verified and not any(os.path.isfile(path) for path in edited):
            candidate.why = "its line is in no file; the edit is yours to make"
        elif not candidate.verified and candidate.edits and search.is_spent():
            candidate.why = "; ".join(filter(None, [candidate.why, search.is_spent()]))
        if not candidate.verified and not candidate.why:
            candidate.why = (
                "there is no edit for it" if not candidate.finding["fixes"] else "none of its edits mends it"
            )
    return outcome


class _Search:
    def __init__(
        self,
        report: dict[str, Any],
        files: dict[str, patches.Text],
        rerun: Callable[..., Rerun],
        max_runs: int,
        has_time: Callable[[], bool],
    ):
        self.report, self.files, self._rerun = report, files, rerun
        self.max_runs, self._has_time = max_runs, has_time
        self.exit = report["program"]["exit"]
        self.steps = report["program"]["steps"]
        steps = [use["first_step"] for f in report["findings"] for use in f["uses"]]
        self.limit = max(steps, default=0) + 2  # one step more: what follows a step belongs to it
        self.runs = 0
        self.shown: list[Candidate] = []

    def is_spent(self) -> str:
        """Why there are no more runs; "" where there may be."""
        if self.runs >= self.max_runs:
            return f"{'the one run is' if self.max_runs == 1 else f'all {self.max_runs} runs are'} used up (--max-runs)"
        return "" if self._has_time() else "the time for further runs is used up"

    def settle(self, candidates: list[Candidate]) -> State:
        """Finds edits for the candidates that hold together; marks them as verified."""
        while not self.is_spent():
            tried = [c for c in candidates if c.edit is not None]
            if not tried:
                break
            merged, made = self._merge(tried, self.files)
            state = self._run(self.files, merged)
            failure = self._failure(state)
            for candidate in tried:
                candidate.touched = [(candidate.edit["file"], candidate.edit["line"])] if candidate in made else []
            if not failure and not self._troubles(state, tried):
                _accept(tried)
                return self._trim(state, tried)
            if not failure:
                # Nothing broke; what is still found may be mended on top.
                deeper = self._go_deeper(state, tried)
                if deeper is not None:
                    return deeper
                if self.exit and not state.rerun.exit and not any(self.remains(c, state) for c in tried):
                    # The program had ended with an error and now comes to its end: what it finds there was not seen
                    # before, and is no fault of the edits.
                    _accept(tried)
                    self.shown = [self._mapped(Candidate(f, [], 1), state) for f in self._troubles(state, tried)]
                    return state
            self._exchange(state, tried, made, failure)
        return State(self.files, {}, None)

    def _trim(self, state: State, tried: list[Candidate]) -> State:
        """Leaves out edits of places where a mistake only hurts, where those of causes are enough."""
        ranks = sorted({_rank(candidate) for candidate in tried})
        for rank in ranks[:-1]:
            few = [c for c in tried if _rank(c) <= rank]
            merged, made = self._merge(few, self.files)
            if merged.texts == state.texts or self.is_spent():
                continue
            smaller = self._run(self.files, merged)
            if not self._failure(smaller) and not self._troubles(smaller, tried):
                for candidate in tried:
                    candidate.touched = candidate.touched if candidate in made else []
                return smaller
        return state

    # -- one run

    def _merge(
        self, candidates: list[Candidate], files: dict[str, patches.Text]
    ) -> tuple[patches.Merged, list[Candidate]]:
        edits = []
        for candidate in candidates:
            if candidate.edit not in edits:
                edits.append(candidate.edit)
        merged = patches.merge(edits, files)
        return merged, [c for c in candidates if c.edit in merged.made]

    def _run(self, files: dict[str, patches.Text], merged: patches.Merged) -> State:
        self.runs += 1
        texts = {path: file.raw for path, file in files.items() if file.raw != self.files[path].raw}
        texts.update(merged.texts)
        return State(files, texts, self._rerun(texts, self.limit))

    def _failure(self, state: State) -> str:
        """Why the program did not do what it did before; "" where it did."""
        run = state.rerun
        if run.deadline:
            return f"the run with the fixes did not end within {run.deadline:,.0f} s"
        if run.report is None:
            return f"the program did not come to its end{': ' + run.error if run.error else ''}"
        if run.exit not in (0, self.exit):
            return f"the program ended with {run.error or f'exit code {run.exit}'}"
        if run.exit and run.exit == self.exit and run.report["program"]["steps"] < min(self.steps, self.limit):
            return f"the program ended early with {run.error}"
        if run.report["program"]["steps"] < min(self.steps, self.limit):
            return "the program made fewer steps"
        return ""

    def _troubles(self, state: State, tried: list[Candidate]) -> list[dict[str, Any]]:
        """The findings that should not be there: those that were to be mended, and new ones."""
        untried = [f for f in self.report["findings"] if not any(c.finding is f for c in tried)]
        found = state.rerun.report["findings"]
        return [f for f in found if not any(self._same(f, known, state) for known in untried)]

    def remains(self, candidate: Candidate, state: State) -> bool:
        return any(self._same(finding, candidate.finding, state) for finding in state.rerun.report["findings"])

    def _same(self, found: dict[str, Any], known: dict[str, Any], state: State) -> bool:
        if found["id"] == known["id"]:
            return True
        places = {(use["file"], use["line"], use["op"]) for use in known["uses"]}
        return any((use["file"], self._line(use, state), use["op"]) in places for use in found["uses"])

    def _line(self, place: dict[str, Any], state: State) -> int:
        """The line that a place of this run has in the files as they were."""
        new = state.texts.get(source.path_of(place["file"]))
        if new is None:
            return place["line"]
        return patches.original_line(self.files[source.path_of(place["file"])].raw, new, place["line"])

    # -- when something is wrong

    def _go_deeper(self, state: State, tried: list[Candidate]) -> State | None:
        """Mends on top of what was mended: a mistake may hide another one, or need two edits."""
        shown: list[Candidate] = []
        touched: list[tuple[Candidate, str, int]] = []
        for layer in range(1, _MAX_LAYERS):
            troubles = self._troubles(state, tried)
            files = {path: patches.Text(path, state.texts.get(path, file.raw)) for path, file in self.files.items()}
            more = _read_files(_wanted(troubles), known=files)
            for path, file in more.items():
                self.files.setdefault(path, file)
                files.setdefault(path, file)
            new = [Candidate(f, _edits(f, files), layer) for f in troubles]
            if any(c.edit is None for c in new) or self.is_spent():
                return None
            merged, done = self._merge(new, files)
            if not done:
                return None
            for candidate in done:
                known = next((c for c in tried if self._same(candidate.finding, c.finding, state)), None)
                if known is None:
                    known = self._mapped(candidate, state)
                    shown.append(known)
                touched.append((known, candidate.edit["file"], self._line(candidate.edit, state)))
            state = self._run(files, merged)
            if self._failure(state):
                return None
            if not self._troubles(state, tried):
                for candidate, file, line in touched:
                    candidate.touched.append((file, line))
                _accept([*tried, *shown])
                self.shown = shown
                return state
        return None

    def _mapped(self, candidate: Candidate, state: State) -> Candidate:
        """A candidate of a later layer, with the lines of the files as they were."""
        finding = dict(candidate.finding)
        finding["cause"] = {**finding["cause"], "line": self._line(finding["cause"], state)}
        finding["uses"] = [{**use, "line": self._line(use, state)} for use in finding["uses"]]
        finding["fixes"] = [{**fix, "line": self._line(fix, state)} for fix in finding["fixes"]]
        return Candidate(finding, candidate.edits[:1], candidate.layer)

    def _exchange(self, state: State, tried: list[Candidate], made: list[Candidate], failure: str) -> None:
        """Takes other edits where the ones that were tried are at fault."""
        suspects = [] if failure else [c for c in made if self.remains(c, state)]
        if not suspects and state.rerun.report is not None:
            suspects = [c for c in made if self._is_near(c, state)]
        if not suspects and len(made) > 1:
            # Where each half is right and both together are not, the second half has to go.
            suspects = self._bisect(made) or made[len(made) // 2 :]
        for candidate in suspects or made or tried:
            candidate.why = failure or "it is still found with the edit"
            candidate.edits.pop(0)

    def _is_near(self, candidate: Candidate, state: State) -> bool:
        """Whether a new finding is about a line that the candidate's edit has changed."""
        edit = candidate.edit
        lines = range(edit["line"], edit["line"] + max(1, edit["new"].count("\n") + 1) + 1)
        for found in state.rerun.report["findings"]:
            for place in [found["cause"], *found["uses"]]:
                if place["file"] == edit["file"] and self._line(place, state) in lines:
                    return True
        return False

    def _bisect(self, made: list[Candidate]) -> list[Candidate]:
        """Those whose edits break the program, found by trying halves."""
        half = len(made) // 2
        bad: list[Candidate] = []
        for part in (made[:half], made[half:]):
            if self.is_spent():
                return bad or made
            merged, done = self._merge(part, self.files)
            state = self._run(self.files, merged)
            if self._failure(state):
                bad += done if len(done) == 1 else self._bisect(done)
        return bad


def _rank(candidate: Candidate) -> int:
    """0: a whole model, 1: where one tensor was made or kept, 2: a place where it hurts."""
    return {"model-not-moved": 0, "handoff-missing": 2, "index": 2, "gradient": 2, "other": 2}.get(
        candidate.finding["reason"], 1
    )


def _accept(candidates: list[Candidate]) -> None:
    for candidate in candidates:
        candidate.verified, candidate.why = True, ""


def _edits(finding: dict[str, Any], files: dict[str, patches.Text]) -> list[Edit]:
    """The edits for a finding, in the order of the engine's ranking."""
    found: list[Edit] = []
    offered = [each["fix"] for each in finding["candidates"] if each["fix"] is not None]
    for edit in [*finding["fixes"], *offered]:
        plain = {
            "file": source.path_of(edit["file"]), "line": edit["line"], "old": edit["old"], "new": edit["new"],
            "note": edit.get("note", ""),
        }  # fmt: skip
        text = files.get(plain["file"])
        if plain not in found and text is not None and text.changes(plain) is not None:
            found.append(plain)
    return found


def _wanted(findings: list[dict[str, Any]]) -> list[Edit]:
    """Every edit that the findings know of."""
    offered = [each["fix"] for f in findings for each in f["candidates"] if each["fix"] is not None]
    return [*(fix for f in findings for fix in f["fixes"]), *offered]


def _is_as_known(path: str, text: patches.Text) -> bool:
    known = source.known_text(path)
    return known is None or known == text.text.replace("\r\n", "\n")


def _read_files(edits: list[Edit], known: dict[str, patches.Text] | None = None) -> dict[str, patches.Text]:
    files: dict[str, patches.Text] = {}
    for edit in edits:
        path = source.path_of(edit["file"])
        if path in files or path in (known or {}) or not os.path.isfile(path):
            continue
        try:
            files[path] = patches.Text.read(path)
        except (OSError, ValueError, SyntaxError, LookupError):
            continue
    return files
