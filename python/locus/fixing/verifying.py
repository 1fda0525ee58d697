"""Which edits of a report fix the program. The best edit of each finding is tried, all of them together, in one more
run; where something is wrong, the edit at fault is found and exchanged for its finding's next one, and all others stay.
Edits without which the program is as clean are left out. What stays is verified.

Decides; runs are made and judged by locus.fixing.trying, texts are put together by locus.fixing.patches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from locus.fixing import patches
from locus.fixing.attempts import Attempt, edits, may_rest_on, merge, read_files
from locus.fixing.patches import Edit
from locus.fixing.rerun import Finding, Fix, RunAgain, Words
from locus.fixing.trying import PRINTS_ELSE, State, Texts, Trials
from locus.program import source

FIXED_BY_OTHERS = "fixed by the edits of the other findings"
"""The note of a finding that needs no edit of its own."""

MAX_RUNS = 16
"""How often a program is run again at most, where nobody says otherwise."""

_MAX_LAYERS = 4
_STILL_FOUND = "it is still found with the edit"


@dataclass
class Outcome:
    """What came of it."""

    attempts: list[Attempt]
    files: dict[str, patches.Text]
    """The files as they were."""
    texts: Texts = field(default_factory=dict)
    """The files with the verified edits."""
    changed: list[str] = field(default_factory=list)
    """Files that are not what they were when the program ran; their edits are not tried."""
    runs: int = 0

    @property
    def fixed(self) -> bool:
        return all(attempt.verified for attempt in self.attempts)

    def findings(self) -> list[Finding]:
        """The report's findings with their fixes as they are now, and those that only the further runs have shown."""
        hunks = [hunk for path, raw in self.texts.items() for hunk in patches.hunks(self.files[path], raw)]
        found = []
        for attempt in self.attempts:
            finding = attempt.finding.copy()
            if attempt.verified:  # without an edit of its own where those of others are enough
                notes = {edit.line: edit.note for edit in attempt.edits[:1]}
                finding["fixes"] = [
                    Fix(file=h.file, line=h.line, old=h.old, new=h.new, verified=True, note=notes.get(h.line, ""))
                    for h in hunks
                    if any(file == h.file and patches.covers(h, line) for file, line in attempt.touched)
                ]
            if attempt.verified and not attempt.touched:
                finding["notes"] = [*finding["notes"], FIXED_BY_OTHERS]
            if attempt.layer:
                finding["notes"] = [*finding["notes"], "it showed when the other findings were fixed"]
            found.append(finding)
        return found


def verify(
    report: Words,
    run_again: RunAgain,
    max_runs: int = MAX_RUNS,
    has_time: Callable[[], bool] = lambda: True,
    printed: str | None = None,
) -> Outcome:
    """Tries the edits of a report, in so many runs at most, and as long as there is time. `printed` is what the checked
    program wrote to standard output, if that is known."""
    findings = report["findings"]
    files = read_files(findings)
    changed = [path for path, text in files.items() if not _is_as_known(path, text)]
    for path in changed:
        del files[path]
    attempts = [Attempt(finding, edits(finding, files)) for finding in findings]
    trials = Trials(report, files, run_again, max_runs, has_time, printed)
    search = _Search(trials)
    state = search.settle(attempts)
    if state is not None:
        # What had no edit of its own may be gone with those of the others.
        for attempt in attempts:
            if not attempt.verified and not trials.remains(attempt.finding, state):
                attempt.accept()
    outcome = Outcome(attempts + search.shown, files, {} if state is None else state.texts, changed, trials.runs)
    for attempt in outcome.attempts:
        if not attempt.verified or any(source.path_of(fix["file"]) in changed for fix in attempt.finding["fixes"]):
            attempt.why = _why_not(attempt, changed, trials.is_spent())
    return outcome


def _why_not(attempt: Attempt, changed: list[str], spent: str) -> str:
    edited = [source.path_of(fix["file"]) for fix in attempt.finding["fixes"]]
    if any(path in changed for path in edited):
        return "the file has changed since the program ran"
    if edited and not any(os.path.isfile(path) for path in edited):
        return "its line is in no file; the edit is yours to make"
    if attempt.edits and spent:
        return "; ".join(filter(None, [attempt.why, spent]))
    return attempt.why or ("none of its edits fixes it" if attempt.finding["fixes"] else "there is no edit for it")


class _Search:
    def __init__(self, trials: Trials):
        self._trials = trials
        self.shown: list[Attempt] = []
        self._cleared: list[Edit] = []
        """Edits that were suspected, and without which it was no better."""

    def settle(self, attempts: list[Attempt]) -> State | None:
        """Finds edits that hold together, and marks their attempts as verified; None where there are none."""
        suspect: Attempt | None = None
        fault = ""
        while not self._trials.is_spent() and (tried := [a for a in attempts if a.edit is not None]):
            state, made = self._try(tried)
            if suspect is not None and self._fault(state, tried) == fault:
                suspect.take_back()
                self._cleared += suspect.edits[:1]
                suspect = None
                self._reject_one([a for a in attempts if a.edit is not None], fault)
                continue
            suspect, fault = None, self._fault(state, tried)
            if not fault:
                self._accept(tried, made)
                return self._trim(*self._try_again(state, tried, attempts))
            if not self._trials.failure(state) and state.prints_right:
                # Nothing broke; what is still found may be fixed on top.
                deeper = self._go_deeper(state, tried, made)
                if deeper is not None:
                    return deeper
                if self._shows_more(state, tried):
                    self._accept(tried, made)
                    return state
            if not self._trials.failure(state):
                remaining = [a for a in tried if self._trials.remains(a.finding, state)]
                for attempt in remaining:
                    attempt.exchange(_STILL_FOUND)
                if remaining:
                    continue
            if self._trials.is_spent():  # nobody can say which it was
                for attempt in made:
                    attempt.why = self._words(state)
                break
            near = [a for a in made if a.edit not in self._cleared and self._is_near(a, state)]
            if near:
                suspect = near[0]
                suspect.exchange(self._words(state))
            else:
                self._reject_one(made or tried, self._words(state))
        return None

    # -- one run

    def _try(self, tried: list[Attempt]) -> tuple[State, list[Attempt]]:
        """A run with the first edits of these; those whose edits were made."""
        merged, made = merge(tried, self._trials.files)
        unlike = merge([a for a in made if a.prints_else], self._trials.files)[0].texts
        return self._trials.run(self._trials.files, merged.texts, unlike), made

    def _fault(self, state: State, tried: list[Attempt]) -> str:
        """What is wrong; "" where nothing is."""
        if words := self._trials.failure(state):
            return words
        found = sorted(f["id"] for f in self._trials.troubles(state, [a.finding for a in tried]))
        return " ".join(found) or ("" if state.prints_right else PRINTS_ELSE)

    def _words(self, state: State) -> str:
        if words := self._trials.failure(state):
            return words
        return "another mistake shows with the edit" if self._trials.troubles(state, []) else PRINTS_ELSE

    def _accept(self, tried: list[Attempt], made: list[Attempt]) -> None:
        for attempt in tried:
            attempt.touched = [(e.file, e.line) for e in attempt.edits[:1]] if attempt in made else []
            attempt.accept()

    # -- when all is well

    def _try_again(self, state: State, tried: list[Attempt], attempts: list[Attempt]) -> tuple[State, list[Attempt]]:
        """Gives the first edits of those that have none left another chance: it may have been another edit, which has
        been exchanged since, that spoiled them."""
        lost = [a for a in attempts if a.edit is None and a.rejected and self._trials.remains(a.finding, state)]
        if not lost or not any(a.rejected for a in tried) or self._trials.is_spent():
            return state, tried
        for attempt in lost:
            attempt.edits = attempt.rejected[:1]
        again, made = self._try([*tried, *lost])
        if not self._fault(again, [*tried, *lost]):
            self._accept([*tried, *lost], made)
            return again, [*tried, *lost]
        for attempt in lost:
            attempt.edits = []
        return state, tried

    def _trim(self, state: State, tried: list[Attempt]) -> State:
        """Leaves out edits that those of other findings make needless. One run says which findings come back."""
        spare = [a for a in tried if a.touched and any(may_rest_on(a, b) for b in tried if b.edit != a.edit)]
        for _ in range(2):
            if len(spare) == len(tried):
                spare = spare[1:]
            kept = [a for a in tried if a not in spare]
            if not spare or self._trials.is_spent() or merge(kept, self._trials.files)[0].texts == state.texts:
                break
            smaller, made = self._try(kept)
            if not self._fault(smaller, tried):
                for attempt in tried:
                    attempt.touched = attempt.touched if attempt in made else []
                return smaller
            if self._trials.failure(smaller):
                break
            back = [a for a in spare if self._trials.remains(a.finding, smaller)]
            if not back:
                break
            spare = [a for a in spare if a not in back]
        return state

    # -- when something is wrong

    def _reject_one(self, made: list[Attempt], why: str) -> None:
        """Finds an edit that is at fault by trying halves: a check repairs what is not edited, so that any part of the
        edits can be judged by itself. Where each part is right and all together are not, the last one has to go."""
        while len(made) > 1:
            if self._trials.is_spent():
                return
            half = made[: len(made) // 2]
            state, _ = self._try(half)
            if self._trials.is_bad(state):
                made, why = half, self._words(state)
            else:
                made = made[len(half) :]
        for attempt in made:
            attempt.exchange(why)

    def _is_near(self, attempt: Attempt, state: State) -> bool:
        """Whether what is wrong has to do with a line that the edit has changed: the traceback names it, or a new
        finding, or a tensor of one came along there."""
        edit = attempt.edits[0]
        places = list(state.rerun.traceback)
        for found in self._trials.troubles(state, []):
            steps = [step["at"] for step in found["history"] if step["at"] is not None]
            places += [(place["file"], place["line"]) for place in (found["cause"], *found["uses"], *steps)]
        return any(
            source.path_of(f) == edit.file and self._trials.line_of(f, n, state) in edit.lines for f, n in places
        )

    def _shows_more(self, state: State, tried: list[Attempt]) -> bool:
        """The program had ended with an error and now comes to its end: what it finds there was not seen before, and is
        no fault of the edits."""
        if not self._trials.exit or state.rerun.exit or any(self._trials.remains(a.finding, state) for a in tried):
            return False
        troubles = self._trials.troubles(state, [a.finding for a in tried])
        self.shown = [self._mapped(Attempt(finding, [], 1), state) for finding in troubles]
        return True

    def _go_deeper(self, state: State, tried: list[Attempt], made: list[Attempt]) -> State | None:
        """Fixes on top of what was fixed: a mistake may hide another one, or need two edits."""
        trials, wanted = self._trials, [a.finding for a in tried]
        shown: list[Attempt] = []
        touched: list[tuple[Attempt, str, int]] = []
        for layer in range(1, _MAX_LAYERS):
            troubles = trials.troubles(state, wanted)
            for path, file in read_files(troubles).items():
                trials.files.setdefault(path, file)
            files = {path: patches.Text(path, state.texts.get(path, file.raw)) for path, file in trials.files.items()}
            new = [Attempt(f, edits(f, files), layer) for f in troubles]
            if any(a.edit is None for a in new) or trials.is_spent():
                return None
            merged, done = merge(new, files)
            if not done:
                return None
            for attempt in done:
                known = next((a for a in tried if trials.is_same(attempt.finding, a.finding, state)), None)
                if known is None:
                    known = self._mapped(attempt, state)
                    shown.append(known)
                edit = attempt.edits[0]
                touched.append((known, edit.file, trials.line_of(edit.file, edit.line, state)))
            prints_else = any(a.prints_else for a in (*made, *done))
            state = trials.run(files, {**state.texts, **merged.texts}, None if prints_else else {})
            if trials.failure(state) or not state.prints_right:
                return None
            if not trials.troubles(state, wanted):
                self._accept(tried, made)
                for attempt, file_name, line in touched:
                    attempt.touched.append((file_name, line))
                    attempt.accept()
                self.shown = shown
                return state
        return None

    def _mapped(self, attempt: Attempt, state: State) -> Attempt:
        """An attempt of a later layer, with the lines of the files as they were."""
        finding = attempt.finding.copy()
        finding["cause"] = {**finding["cause"], "line": self._trials.line(finding["cause"], state)}
        finding["uses"] = [{**use, "line": self._trials.line(use, state)} for use in finding["uses"]]
        finding["fixes"] = [{**fix, "line": self._trials.line(fix, state)} for fix in finding["fixes"]]
        return Attempt(finding, attempt.edits[:1], attempt.layer)


def _is_as_known(path: str, text: patches.Text) -> bool:
    known = source.known_text(path)
    return known is None or known == text.text.replace("\r\n", "\n")
