"""What only somebody who has all ranks' reports can say: that one finding is the consequence of another, and that a
gradient is missing because ranks went different ways.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from locus import scratch
from locus.blame import findings

_REASON = "unfinished-reduction"
_EXPLAIN_THE_REST = {_REASON, "ready-twice", "ranks-part-ways"}
"""Reasons after which ranks end at different places, which is then no finding of its own."""


def tidy(folder: str) -> set[str]:
    """Goes over the reports in a check's folder, before they become one; the reasons that are left."""
    reports = {name: report for name in _names(folder, ".json") if (report := _load(folder, name))}
    before = {name: json.dumps(report) for name, report in reports.items()}
    _complete(reports, {name: record for name in _names(folder, ".passes") if (record := _load(folder, name))})
    _drop_consequences(reports)
    for name, report in reports.items():
        if json.dumps(report) != before[name]:
            scratch.write(os.path.join(folder, name), json.dumps(report))
    return {finding["reason"] for report in reports.values() for finding in report["findings"]}


def explains_the_rest(reasons: set[str]) -> bool:
    """Whether one of these is why ranks ended at different places."""
    return bool(reasons & {*_EXPLAIN_THE_REST, "rank-missing"})


def _names(folder: str, ending: str) -> list[str]:
    return sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.endswith(ending))


def _load(folder: str, name: str) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(scratch.read(os.path.join(folder, name)))
    return None


def _drop_consequences(reports: dict[str, Any]) -> None:
    """A rank that ends because of one finding leaves the others waiting: that is no second one."""
    everything = [finding for report in reports.values() for finding in report["findings"]]
    explained = bool(_EXPLAIN_THE_REST & {finding["reason"] for finding in everything})
    lacking = {rank for finding in everything if finding["reason"] == _REASON for rank in finding["ranks"]}

    def is_consequence(finding: dict[str, Any]) -> bool:
        if finding["reason"] == "ranks-part-ways":  # one rank left its bucket open, the other did not
            return bool(lacking) and not set(finding["ranks"]) <= lacking
        return finding["reason"] == "rank-missing" and explained

    for report in reports.values():
        report["findings"] = [finding for finding in report["findings"] if not is_consequence(finding)]


_Found = list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]  # a report, its finding, what that lacks


def _complete(reports: dict[str, Any], records: dict[str, Any]) -> None:
    """Where a parameter got its gradient on some ranks and not on others, in the same pass: says so."""
    groups: dict[Any, _Found] = {}
    for name, report in reports.items():
        record = records.get(name.removesuffix(".json") + ".passes") or {"lacking": []}
        for finding in report["findings"]:
            for entry in record["lacking"] if finding["reason"] == _REASON else []:
                if entry["culprit"] == finding["culprit"]["name"] and entry["why"] == "unused":
                    place = finding["cause"]["file"], finding["cause"]["line"], entry["module"], entry["pass"]
                    groups.setdefault(place, []).append((report, finding, entry))
    for found in groups.values():
        by_rank: dict[int, list[str]] = {}
        for _, finding, entry in found:
            for rank in finding["ranks"]:
                by_rank.setdefault(rank, []).extend(entry["names"])
        lacks: dict[tuple[str, ...], list[int]] = {}
        for rank in sorted(by_rank):
            lacks.setdefault(tuple(by_rank[rank]), []).append(rank)
        _say(found, lacks, _with_gradient(records, found[0][2], {name for names in lacks for name in names}))


def _with_gradient(records: dict[str, Any], entry: dict[str, Any], wanted: set[str]) -> list[int]:
    """The ranks on which what is lacking elsewhere was ready in the same pass."""
    found = set()
    for record in records.values():
        module = record["modules"][entry["module"]] if entry["module"] < len(record["modules"]) else None
        if module and module["pass"] == entry["pass"] and wanted <= set(module["ready"]):
            found.add(record["rank"])
    return sorted(found)


def _say(found: _Found, lacks: dict[tuple[str, ...], list[int]], took: list[int]) -> None:
    """One finding for all ranks that lack something at one place, with what each of them lacks."""
    _, first, entry = min(found, key=lambda each: min(each[1]["ranks"]))
    names, ranks = next(iter(lacks.items()))
    are = "is" if len(names) == 1 else "are"
    if len(lacks) > 1:
        parts = [f"{findings.listed(list(each), 4)} on {_ranks(numbers)}" for each, numbers in lacks.items()]
        start = f"took different sides of {entry['condition']}" if entry["branch"] else "went different ways through"
        words = f"ranks {start}{'' if entry['branch'] else ' forward()'}; without a gradient were {'; '.join(parts)}"
    elif took and entry["branch"].startswith("after"):
        words = f"{findings.listed(list(names))} {are} used only after {entry['condition']}, where {_ranks(ranks)} "
        words += f"left early and {_ranks(took)} did not"
    elif took and entry["branch"]:
        words = f"{findings.listed(list(names))} {are} used only {entry['branch']}, a branch that {_ranks(took)} took "
        words += f"and {_ranks(ranks)} did not"
    elif took:
        words = f"{findings.listed(list(names))} took part in what forward() returned on {_ranks(took)}, but not on "
        words += _ranks(ranks)
    else:
        return
    first.update(why=words, ranks=sorted(rank for numbers in lacks.values() for rank in numbers))
    first.update(notes=entry["notes"], fixes=entry["fixes"])
    for report, finding, _ in found:
        if finding is not first:
            report["findings"] = [each for each in report["findings"] if each is not finding]


def _ranks(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(str(number) for number in numbers[:-1])} and {numbers[-1]}"
