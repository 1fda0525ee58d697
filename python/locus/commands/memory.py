"""`locus memory`: what a program takes of a card's memory, before there is a card: the peak by line, which cards it
fits on, and the largest value of one of its options that does."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from locus.commands import memory_ranks, run
from locus.commands.memory_ranks import size
from locus.commands.output import show
from locus.errors import LocusError, UsageError
from locus.process import cluster, held
from locus.process.cards import CARDS, DEFAULT_CARD

SUMMARY = "say what a program takes of a card's memory, and which cards it fits on"

_LINES = 12
_UNUSED = "the program put nothing on a device. Is an option such as --device cuda missing?"
_STEPS = 3
_ONE_HOST = ("node_rank", "master_addr", "master_port")
"""What is said where ranks run on other machines."""


class Line(NamedTuple):
    """A line of the program, and what it held at the peak."""

    place: str
    text: str
    bytes: int
    category: str
    """What most of it was for."""


class Run(NamedTuple):
    """One run of the program on one card."""

    card: str
    value: str
    """Of the option that was varied; "" where none was."""
    peak: int
    """Of the rank that was fullest, where there are ranks; so are lines, categories and modules."""
    reserved: int
    """The most that any rank held."""
    lines: list[Line]
    categories: dict[str, int]
    """Bytes at the peak by what they were for, largest first."""
    modules: dict[str, int]
    """The activations among them by the class whose code took them."""
    device: str
    failed: str
    """How it ended, where it did not end well; "" otherwise."""
    ended_after: int
    """The program was ended after so many optimizer steps; 0: it came to its own end."""
    tight: dict[str, bool]
    """Cards that have room for the peak, but not for all that the allocator held beside it: whether the program runs
    through on them, where the allocator has to give back what nobody uses."""
    ranks: list[memory_ranks.Rank]
    """What each rank held; none where the program is one process."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Everything after the script, module or code belongs to the program."""
    run.configure(parser)
    parser.usage = "locus memory [OPTION ...] (SCRIPT | -m MODULE | -c CODE) [ARGUMENT ...]"
    for action in parser._actions:
        if action.dest == "card":
            action.help = f"the cards to look at, with commas between them: {', '.join(CARDS)}"
            action.metavar = "NAME,..."
        elif action.dest == "devices":
            action.help = "how many CUDA devices, 1 to 64 (default: 1, or one for each rank)"
        elif action.dest in (*_ONE_HOST, "memory", "strict_memory"):
            action.help = argparse.SUPPRESS  # refused, with the reason
    parser.add_argument("--batch", metavar="NAME=N,...", help="run once for each value of the program's own option")
    parser.add_argument("--steps", metavar="N", help=f"end the program after N optimizer steps (default: {_STEPS})")
    parser.add_argument("--json", metavar="FILE", help="write what was found as JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="write the report of the last run as a page, memory over time in it"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Runs the program once for each kind of card and value; 0 where it fits on every card that was named."""
    for name in _ONE_HOST:
        if getattr(arguments, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} can't be had here: memory is looked at on one machine. Leave it out, or "
                "use locus check."
            )
    shape = cluster.parse(arguments)
    cluster.parse_ranks(arguments.ranks, shape, bool(arguments.dry))
    if arguments.memory is not None:
        raise UsageError("--memory can't be had here: the cards that --card names have theirs. Leave it out.")
    if arguments.strict_memory:
        raise UsageError("--strict-memory can't be had here: the cards are looked at after the run. Leave it out.")
    cards = _cards(arguments.card)
    flag, values = _values(arguments.batch)
    run.target(arguments)  # complains before anything runs
    # Libraries take what the card's generation makes them take; its size only says whether that fits.
    runs = [
        _run(arguments, card, flag, value, arguments.html if (card, value) == (cards[0], values[-1]) else None)
        for card in _one_of_each_kind(cards)
        for value in values
    ]
    if not any(each.device for each in runs):
        ended = f"the program ended with {runs[-1].failed}; see above" if runs[-1].failed else _UNUSED
        raise LocusError(f"nothing was measured: {ended}")
    for card in cards:
        for each in _of(runs, card):
            if not each.failed and each.peak <= CARDS[card].memory < each.reserved:
                each.tight[card] = _runs_through(arguments, card, flag, each.value)
    show(_text(runs, cards, flag, shape.per_host if shape is not None else 0))
    if arguments.json is not None:
        _write(arguments.json, json.dumps(_data(runs, cards, flag), indent=2) + "\n")
    if all(each.failed for each in runs):
        return 1
    return 0 if all(any(_fits(each, card) for each in _of(runs, card)) for card in cards) else 1


def _cards(text: str | None) -> list[str]:
    keys = [DEFAULT_CARD] if text is None else [key.strip().lower() for key in text.split(",") if key.strip()]
    for key in keys:
        if key not in CARDS:
            raise UsageError(f"--card {key} is not known. Use some of {', '.join(CARDS)}.")
    return keys or [DEFAULT_CARD]


def _values(text: str | None) -> tuple[str, list[str]]:
    if text is None:
        return "", [""]
    flag, equals, rest = text.partition("=")
    values = [value.strip() for value in rest.split(",") if value.strip()]
    if not flag or not equals or not values or not all(value.isdecimal() for value in values):
        raise UsageError(f"--batch {text} is not an option with values. Use the program's own, as in --batch bs=1,2,4.")
    return flag if flag.startswith("-") else f"--{flag}", sorted(values, key=int)


def _generation(card: str) -> tuple[int, int]:
    return CARDS[card].capability


def _one_of_each_kind(cards: Sequence[str]) -> list[str]:
    """The largest card of each generation among these: what fits on it is what its smaller sisters are asked for."""
    best: dict[tuple[int, int], str] = {}
    for card in cards:
        known = best.setdefault(_generation(card), card)
        if CARDS[card].memory > CARDS[known].memory:
            best[_generation(card)] = card
    return list(best.values())


def _of(runs: list[Run], card: str) -> list[Run]:
    return [each for each in runs if _generation(each.card) == _generation(card)]


def _fits(each: Run, card: str) -> bool:
    return not each.failed and (each.reserved <= CARDS[card].memory or each.tight.get(card, False))


def _runs_through(arguments: argparse.Namespace, card: str, flag: str, value: str) -> bool:
    """Whether the program comes to its end on that very card. An allocator that runs short gives back what it keeps for
    later, as far as that is in whole segments: neither what was in use nor what was held says whether that suffices."""
    with tempfile.TemporaryDirectory(prefix="locus-memory-") as folder:
        report = os.path.join(folder, "report.json")
        words = [*_check(arguments, card, report), *(["--strict-memory"] if arguments.dry else [])]
        words += _program(arguments) + ([flag, value] if flag else [])
        subprocess.run(words, stdout=sys.stderr, check=False)
        try:
            with open(report, encoding="utf-8") as file:
                return bool(json.load(file)["verdict"]["finished"])
        except (OSError, ValueError):
            return False


def _check(arguments: argparse.Namespace, card: str, report: str) -> list[str]:
    """A check of the program, but for the program itself."""
    words = [sys.executable, "-m", "locus", "check", "--card", card, "--allow-empty"]
    words += ["--devices", arguments.devices or "1"] if arguments.nproc is None else run.given(arguments, ("devices",))
    words += ["--steps", arguments.steps or str(_STEPS), "--format", "json", "-o", report]
    return words + run.given(arguments, (*cluster.OPTIONS, "rng", "dry", "dry_keep", "dry_shapes"))


def _run(arguments: argparse.Namespace, card: str, flag: str, value: str, html: str | None) -> Run:
    """The program, checked, on a card whose memory does not end."""
    with tempfile.TemporaryDirectory(prefix="locus-memory-") as folder:
        report, noted = os.path.join(folder, "report.json"), os.path.join(folder, "reserved.json")
        words = [*_check(arguments, card, report), "--memory", "4TiB", "--ledger"]
        if html is not None:
            words += ["--html", html]
        words += _program(arguments) + ([flag, value] if flag else [])
        environment = {**os.environ, held.VARIABLE: noted}
        done = subprocess.run(words, stdout=sys.stderr, env=environment, check=False)
        try:
            with open(report, encoding="utf-8") as file:
                found = json.load(file)
            own, of_ranks = held.read(noted), held.of_ranks(noted)
        except (OSError, ValueError):
            raise LocusError(f"the program could not be checked (exit code {done.returncode}); see above") from None
    places = {
        int(each["rank"]): memory_ranks.Place(each["role"], each["coordinates"])
        for each in found.get("cluster", {}).get("ranks", [])
    }
    ranks = memory_ranks.of(of_ranks, places)
    memory: dict[str, held.Device] = found.get("memory", {})
    reserved = own["reserved"] if own is not None else {}
    if ranks:
        memory = of_ranks[memory_ranks.fullest(ranks).rank]["memory"]
    device = max(memory, key=lambda name: memory[name]["peak"], default="")
    nothing = held.Device(peak=0, by_line=[], by_category=[], activations_by_module=[])
    at_peak = memory.get(device, nothing)
    lines = [
        Line(
            f"{os.path.relpath(row['file'])}:{row['line']}" if row["file"] else "elsewhere",
            row["text"],
            row["bytes"],
            row["category"],
        )
        for row in at_peak["by_line"]
    ]
    program = found["program"]
    ended = "" if found["verdict"]["finished"] else str(program.get("ended_by") or f"exit status {program['exit']}")
    return Run(
        card,
        value,
        at_peak["peak"],
        max((each.reserved for each in ranks), default=reserved.get(device, at_peak["peak"])),
        sorted(lines, key=lambda line: -line.bytes),
        {row["category"]: row["bytes"] for row in at_peak["by_category"]},
        {row["module"]: row["bytes"] for row in at_peak["activations_by_module"]},
        device,
        ended,
        int(program["steps"]) if str(program["steps"]) == (arguments.steps or str(_STEPS)) else 0,
        {},
        ranks,
    )


def _program(arguments: argparse.Namespace) -> list[str]:
    target = run.target(arguments)
    flag = {"module": ["-m"], "code": ["-c"]}.get(target.kind, [])
    return [*flag, target.name, *target.arguments]


def _text(runs: list[Run], cards: list[str], flag: str, per_host: int) -> str:
    shown = max((each for each in runs if not each.failed), key=lambda each: each.peak, default=runs[-1])
    which = f"{flag} {shown.value} on {shown.card}: " if len(runs) > 1 and flag else ""
    whose = f" of rank {memory_ranks.fullest(shown.ranks).rank}" if shown.ranks else ""
    out = [
        f"{which}peak {size(shown.peak)} on {shown.device or 'no device'}{whose}; "
        f"{size(shown.reserved)} held by PyTorch's allocator"
    ]
    if shown.failed:
        out.append(f"the program ended with {shown.failed}: this is what it took until then")
    if ended := [each for each in runs if each.ended_after and not each.failed]:
        steps = f"{ended[0].ended_after} optimizer step{'' if ended[0].ended_after == 1 else 's'}"
        values = ", ".join(dict.fromkeys(each.value for each in ended))
        which = f" with {flag} {values}" if len(ended) < len(runs) else ""
        out.append(f"ended{which} after {steps}: what comes later, an evaluation say, is not in this (--steps N)")
    if shown.ranks:
        out += ["", "at the peak, by rank", *memory_ranks.rows(shown.ranks)]
        out += memory_ranks.together(shown.ranks, per_host) if per_host else []
    out += ["", f"at the peak{whose}, by what it was for"]
    out += [
        f"  {size(count):>10}  {_share(count, shown.peak):>4}  {category}"
        for category, count in shown.categories.items()
    ]
    if len(shown.modules) > 1:
        out += ["", "the activations among these, by module"]
        out += [
            f"  {size(count):>10}  {_share(count, shown.peak):>4}  {module}"
            for module, count in list(shown.modules.items())[:_LINES]
        ]
    out += ["", f"at the peak{whose}, by the line that allocated it"]
    out += [
        f"  {size(line.bytes):>10}  {_share(line.bytes, shown.peak):>4}  {line.place}  {line.text.strip()}".rstrip()
        for line in shown.lines[:_LINES]
    ]
    if len(shown.lines) > _LINES:
        rest = sum(line.bytes for line in shown.lines[_LINES:])
        out.append(f"  {size(rest):>10}  {_share(rest, shown.peak):>4}  {len(shown.lines) - _LINES} more lines")
    out += ["", "cards", *(_card_row(runs, card, flag) for card in cards)]
    out.append("  beside this the CUDA runtime takes memory of its own, which is not counted here")
    if any(not CARDS[card].measured for card in cards):
        out.append("  derived: what libraries take follows from rules that were measured on an H200")
    return "\n".join(out) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{round(100 * part / whole)}%" if whole else ""


def _card_row(runs: list[Run], card: str, flag: str) -> str:
    mine, memory = _of(runs, card), CARDS[card].memory
    head = f"  {card:<9} {size(memory):>10}  {'measured' if CARDS[card].measured else 'derived':<8}"
    if not flag:
        return f"{head}  {_verdict(mine[0], card)}"
    fitting = [each for each in mine if _fits(each, card)]
    best = f"{flag} {fitting[-1].value} fits" if fitting else "none fits"
    return f"{head}  {best} ({', '.join(f'{each.value}: {_taken(each, card)}' for each in mine)})"


def _verdict(each: Run, card: str) -> str:
    memory = CARDS[card].memory
    if each.failed and each.peak <= memory:
        return f"not known: the program ended with {each.failed}"
    if each.ranks:
        return memory_ranks.verdict(each.ranks, card, each.tight.get(card, False))
    if each.peak > memory:
        return f"does not fit, {size(each.peak - memory)} short"
    if each.reserved <= memory:
        return f"fits, {size(memory - each.reserved)} left"
    if _fits(each, card):
        return f"fits, {size(memory - each.peak)} left when the allocator has given back what nobody uses"
    return f"does not fit: {size(memory - each.peak)} would be left at the peak, in pieces that are too small"


def _taken(each: Run, card: str) -> str:
    """What was in use at most: what the allocator held beside it, it gives back when it runs short."""
    if each.failed:
        return f"ended with {each.failed}"
    in_pieces = each.peak <= CARDS[card].memory and not _fits(each, card)
    return f"{size(each.peak)}, the rest in pieces that are too small" if in_pieces else size(each.peak)


def _data(runs: list[Run], cards: list[str], flag: str) -> dict[str, object]:
    return {
        "flag": flag,
        "runs": [_run_data(each) for each in runs],
        "cards": {
            card: {
                "name": CARDS[card].name,
                "memory": CARDS[card].memory,
                "measured": CARDS[card].measured,
                "fits": [each.value for each in _of(runs, card) if _fits(each, card)],
            }
            for card in cards
        },
    }


def _run_data(each: Run) -> dict[str, object]:
    rows = {"lines": [line._asdict() for line in each.lines], "ranks": [rank._asdict() for rank in each.ranks]}
    return {**each._asdict(), **rows}


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise LocusError(f"{path} can't be written: {error.strerror}.") from None
