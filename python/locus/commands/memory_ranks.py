"""`locus memory --nproc N`: what each rank holds, and whether its card has room for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from locus.process.cards import CARDS
from locus.process.held import Held

_SHOWN = 16


class Rank(NamedTuple):
    """What one rank held on the device that was fullest."""

    rank: int
    role: str
    """Why it ran, and its place in the mesh: "last of tp (tp 7)"; "" where all ranks ran."""
    device: str
    peak: int
    reserved: int


class Place(NamedTuple):
    """Where a rank is in a cluster, as a report says it."""

    role: str
    coordinates: str

    def words(self) -> str:
        """ "last of tp (dp 0, tp 7)"."""
        return " ".join(filter(None, (self.role, f"({self.coordinates})" if self.coordinates else "")))


def size(count: int) -> str:
    """ "512 B", "1.5 MiB", "79.2 GiB"."""
    value, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def of(held: Mapping[int, Held], places: Mapping[int, Place]) -> list[Rank]:
    """The ranks, in order. One that has used no device holds nothing."""
    found = []
    for number, each in held.items():
        device = max(each["memory"], key=lambda name, of=each: of["memory"][name]["peak"], default="")  # type: ignore[misc]
        peak = each["memory"][device]["peak"] if device else 0
        role = places[number].words() if number in places else ""
        found.append(Rank(number, role, device, peak, max(peak, each["reserved"].get(device, 0))))
    return found


def fullest(ranks: Sequence[Rank]) -> Rank:
    """The first of those with the highest peak."""
    return max(ranks, key=lambda each: each.peak)


def rows(ranks: Sequence[Rank]) -> list[str]:
    """A line for each, the fullest first; equal ones, and those beyond what one reads, are told together."""
    alike: dict[tuple[str, int, int], list[Rank]] = {}
    for each in ranks:
        alike.setdefault((each.role, each.peak, each.reserved), []).append(each)
    groups = sorted(alike.values(), key=lambda group: -group[0].peak)
    named = [(_numbers(group), group[0]) for group in groups[:_SHOWN]]
    width = max(len(words) for words, _ in named)
    out = [
        f"  {words:<{width}}  {size(each.peak):>10}  {size(each.reserved):>10} held  {each.role}".rstrip()
        for words, each in named
    ]
    if len(groups) > _SHOWN:
        rest = [each for group in groups[_SHOWN:] for each in group]
        out.append(f"  {len(rest)} more, {size(fullest(rest).peak)} at most")
    return out


def _numbers(group: Sequence[Rank]) -> str:
    """ "rank 3", "ranks 0–3, 8"."""
    runs: list[list[int]] = []
    for each in group:
        if runs and runs[-1][-1] == each.rank - 1:
            runs[-1][1:] = [each.rank]
        else:
            runs.append([each.rank])
    words = ", ".join("–".join(map(str, run)) for run in runs)
    return f"rank{'s' if len(group) > 1 else ''} {words}"


def together(ranks: Sequence[Rank], per_host: int) -> list[str]:
    """Cards that several ranks use at once: what each holds there adds up."""
    shared: dict[tuple[int, str], list[Rank]] = {}
    for each in ranks:
        if each.device:
            shared.setdefault((each.rank // per_host, each.device), []).append(each)
    return [
        f"  {_numbers(group)} use the same card, {device}: {size(sum(each.peak for each in group))} together at most"
        for (_, device), group in shared.items()
        if len(group) > 1
    ]


def verdict(ranks: Sequence[Rank], card: str, runs_through: bool) -> str:
    """Whether that card has room for what each of these ranks holds."""
    memory = CARDS[card].memory
    short = [each for each in ranks if each.peak > memory]
    tight = [each for each in ranks if each.peak <= memory < each.reserved and not runs_through]
    if short:
        worst = fullest(short)
        return f"does not fit {_share(short, ranks)}, {size(worst.peak - memory)} short on rank {worst.rank}"
    if tight:
        worst = max(tight, key=lambda each: (each.reserved, each.peak))
        left = f"{size(memory - worst.peak)} would be left at the peak, in pieces that are too small"
        return f"does not fit {_share(tight, ranks)}: on rank {worst.rank} {left}"
    least = max(ranks, key=lambda each: (each.reserved, each.peak))
    if least.reserved <= memory:
        return f"fits on each rank, {size(memory - least.reserved)} left on rank {least.rank}"
    left = f"{size(memory - least.peak)} left on rank {least.rank} when the allocator has given back what nobody uses"
    return f"fits on each rank, {left}"


def _share(some: Sequence[Rank], ranks: Sequence[Rank]) -> str:
    return f"on {len(some)} of {len(ranks)} ranks" if len(some) < len(ranks) else "on any rank"
