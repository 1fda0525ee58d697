"""One report of several hosts, each with a check of its own. The host of rank 0 makes it: it waits a stated time for
the parts of the others, which come over the network or lie in a folder that all hosts see, and puts them into its own
check's folder, as if their processes had run here. What has not come is named. The others send what they have; where
it can't be sent, they report it themselves.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from locus import scratch
from locus._load import load_bridge
from locus.errors import LocusError
from locus.process import children, endings, parts, reports
from locus.process.session import Session
from locus.program.end import End
from locus.ranks import checking, collector, hosts, membership

if TYPE_CHECKING:
    from collections.abc import Iterable

    from locus._bridge import Report
    from locus.process.settings import Settings
    from locus.ranks.membership import Address, Member

DEFAULT_WAIT = 60.0
"""Seconds."""
_LOOK = 0.2
_TALK = 2.0
"""Seconds of waiting after which it is said who is waited for."""


class Options(NamedTuple):
    """What the command line says of several hosts."""

    folder: str | None = None
    """The one that all hosts see; None: over the network."""
    wait: float = DEFAULT_WAIT
    quiet: bool = False


class Delivered(NamedTuple):
    """What these ranks have found is told elsewhere."""

    who: str
    """"ranks 4–7 on node-b"."""
    where: str


class _Here(NamedTuple):
    """The ranks of this check's own folder."""

    ranks: list[int]
    world: int
    job: str
    hosts: dict[str, str]
    is_spread: bool
    address: Address | None


def _here(members: list[Member]) -> _Here:
    """A job that was made anew, after a failure, has taken the place of the one before."""
    job = max((member["job"] for member in members), key=lambda job: job.split("-")[1:], default="")
    own = [member for member in members if member["job"] in (job, "")]
    return _Here(
        sorted({member["rank"] for member in own}),
        max((member["world"] for member in own), default=0),
        job,
        next((member["hosts"] for member in own if member["rank"] == 0), {}),
        any(member["is_spread"] for member in own),
        next((member["address"] for member in own if member["address"] is not None), None),
    )


class Gathering:
    """The report of one check, alone or as a part of all."""

    def __init__(self, options: Options):
        self._options = options
        self.delivered: Delivered | None = None
        self.codes: dict[int, int] = {}
        self.end = End()
        self._hosts: list[tuple[str, list[int], bool]] = []
        self._incomplete = ""

    def announce(self) -> None:
        """Before the program starts: how its ranks are to tell of themselves."""
        os.environ[hosts.GATHER_VARIABLE] = "1"

    @property
    def is_spread(self) -> bool:
        """Whether ranks ran on other hosts."""
        return bool(self._hosts) or self.delivered is not None

    @property
    def is_whole(self) -> bool:
        """Whether all ranks that there are have reported, or will do so elsewhere."""
        return not self._incomplete

    def try_to_gather(
        self,
        session: Session,
        folder: str,
        end: End,
        codes: dict[int, int] | None = None,
        patience: endings.Patience | None = None,
        dead: Report | None = None,
    ) -> None:
        """After the end of the program, before the reports in the folder are taken in. `codes`: what the ranks ended
        with, where this process has started them and has run nothing itself; `dead`: the report of the program, where
        it was killed."""
        self.end, self.codes = end, dict(codes or {})
        session.safely("one report of several hosts", self._gather, session, folder, codes, patience, dead)

    def _gather(
        self,
        session: Session,
        folder: str,
        codes: dict[int, int] | None,
        patience: endings.Patience | None,
        dead: Report | None,
    ) -> None:
        end = self.end
        hosts.leave()
        members = membership.read(folder)
        pid = scratch.owner(folder) if codes is None else 0  # the program's: this may be the process beside it
        if not members and (expected := membership.expected(hosts.name())) is not None:
            members = {pid: expected}
        here = _here(list(members.values()))
        is_all = set(here.ranks) >= set(range(here.world))
        if self._options.folder is None and (is_all or not here.is_spread):
            return
        own = _own_files(session, end, pid, members.get(pid), dead) if pid else {}
        if pid in members:
            if dead is not None:
                dead.sign(here.world, members[pid]["rank"])
            self.codes[members[pid]["rank"]] = end.exit if not end.by.startswith("SIG") else 128 - end.exit
        part = self._part(session, folder, here, own)
        if self._options.folder is not None:
            self._write(self._options.folder, part)
        if not here.job or is_all:
            return  # there is nobody to be one with
        if 0 not in here.ranks and self._send(here, part):
            return
        if pid in members and dead is None:
            session.become_one_of_many(folder, own)
        if 0 in here.ranks:
            self._take_in(here, self._wait(here, folder, patience), folder)

    def apply(self, report: Report) -> None:
        """Puts under a report what is known of the hosts."""
        if len(self._hosts) > 1 or self._incomplete:
            report.set_hosts(self._hosts, self._incomplete)

    def _part(self, session: Session, folder: str, here: _Here, own: dict[str, bytes]) -> parts.Part:
        manifest = parts.manifest_of(
            host=hosts.name(), job=here.job, world=here.world, ranks=here.ranks, hosts=here.hosts,
            codes={str(rank): code for rank, code in self.codes.items()}, exit=self.end.exit, ended_by=self.end.by,
            script=session.script, argv=session.arguments, seconds=time.perf_counter() - session.began,
            written=time.time(),
        )  # fmt: skip
        return parts.Part(manifest, parts.pack(folder, manifest, own))

    def _write(self, folder: str, part: parts.Part) -> None:
        try:
            parts.write(folder, part)
        except LocusError as error:
            self._incomplete = str(error)

    def _send(self, here: _Here, part: parts.Part) -> bool:
        """Whether another host has what this one would report, and will do so."""
        who, folder, address = f"{_ranks(here.ranks)} on {hosts.name()}", self._options.folder, here.address
        if folder is not None and not self._incomplete:
            where = f"the part is in {folder}: the host of rank 0 makes the report of all, as `locus report` does later"
            self.delivered = Delivered(who, where)
        elif folder is None and address is None:
            self._incomplete = "rank 0 has not said where its host takes in reports"
        elif address is not None and folder is None:
            if collector.deliver(address, parts.name_of(part.manifest), part.data, self._options.wait):
                self.delivered = Delivered(who, "the host of rank 0 makes the report of all")
            else:
                where = f"{next(filter(None, address['names']), 'its host')} port {address['port']}"
                self._incomplete = f"rank 0 could not be reached at {where}"
        if self.delivered is None:
            others = sorted(set(range(here.world)) - set(here.ranks))
            self._hosts = [(hosts.name(), here.ranks, True), ("", others, False)]
            self._incomplete += f"; this report is of {who}, without {_ranks(others)}"
        return self.delivered is not None

    def _wait(self, here: _Here, folder: str, patience: endings.Patience | None) -> list[parts.Part]:
        """Until all parts are there, somebody wants the end, or the time is over."""
        if self._options.folder is None:
            watch = parts.Watch(folder, collector.ENDING)
        else:
            watch = parts.Watch(self._options.folder, parts.ENDING)
        began = time.monotonic()
        has_talked = self._options.quiet
        with patience.interruptible() if patience is not None else contextlib.nullcontext():
            while missing := set(range(here.world)) - set(here.ranks) - _ranks_of(parts.of_job(watch.look(), here.job)):
                waited = time.monotonic() - began
                if waited >= self._options.wait:
                    break
                if waited > _TALK and not has_talked:
                    has_talked = True
                    left = self._options.wait - waited
                    who = _by_host(missing, here.hosts)
                    endings.say(f"waiting up to {left:,.0f} s more for the reports of {who}")
                time.sleep(_LOOK)
        return parts.of_job(watch.look(), here.job)

    def _take_in(self, here: _Here, came: list[parts.Part], folder: str) -> None:
        self._hosts = [(hosts.name(), here.ranks, True)]
        self.unpack([part for part in came if not set(part.manifest["ranks"]) <= set(here.ranks)], folder)
        self._name_missing(here.world, here.hosts, f" within {self._options.wait:,.0f} s")

    def unpack(self, came: list[parts.Part], folder: str) -> None:
        """Puts parts into the folder of a check; one that can't be read is missing."""
        for number, part in enumerate(came):
            manifest = part.manifest
            try:
                parts.unpack(part, folder, f"part{number}")
            except (ValueError, OSError) as error:
                self._incomplete = f"the part of {manifest['host']} can't be read: {error}"
                continue
            self._hosts.append((manifest["host"], manifest["ranks"], True))
            self.codes.update({int(rank): code for rank, code in manifest["codes"].items()})
            if self.end == End():
                self.end = End(manifest["exit"], manifest["ended_by"])

    def _name_missing(self, world: int, hosts_of: dict[str, str], within: str) -> None:
        """Names the ranks that have not reported, by their hosts. Parts of one host become one."""
        by_name: dict[tuple[str, bool], set[int]] = {}
        for name, ranks, reported in self._hosts:
            by_name.setdefault((name, reported), set()).update(ranks)
        missing = set(range(world)) - {rank for _, ranks, _ in self._hosts for rank in ranks}
        words = [self._incomplete] if self._incomplete else []
        for name, some in _grouped(missing, hosts_of).items():
            by_name.setdefault((name, False), set()).update(some)
            whose = f"host {name}'s " if name else ""
            words.append(f"{whose}{_ranks(some)} left no report{within}")
        rows = [(name, sorted(ranks), reported) for (name, reported), ranks in by_name.items()]
        self._hosts = sorted(rows, key=lambda row: row[1][:1])
        self._incomplete = "; ".join(words)


def _own_files(session: Session, end: End, pid: int, member: Member | None, dead: Report | None) -> dict[str, bytes]:
    """What the program's first process has found, in the form in which others leave it in the folder."""
    report = session.own_report(end) if dead is None else reports.load(dead.render("json"))
    report.sign(member["world"] if member is not None and member["job"] else 0, member["rank"] if member else None)
    words = {} if dead is not None else {**checking.own_word(pid), **session.coverage.own_word(pid)}
    return {f"{pid}.json": report.render("json"), **words}


def report_of(folder: str, project: Settings) -> Report:
    """The report of what lies in a folder that hosts have shared: the parts of the newest run. A ValueError where there
    are none."""
    watch = parts.Watch(folder, parts.ENDING)
    found = watch.look()
    if not found:
        raise ValueError(
            "there is no part of a report in it" if not watch.strangers else f"{watch.strangers[0]} is none"
        )
    newest = max(found, key=lambda each: each.manifest["written"]).manifest
    mine = parts.of_job(found, newest["job"])
    first = mine[0].manifest
    session, together = Session(first["script"], first["argv"], settings=project), Gathering(Options(folder))
    session.began -= max(part.manifest["seconds"] for part in mine)
    session.load()
    place = scratch.make()
    try:
        together.unpack(mine, place)
        known: dict[str, str] = next((part.manifest["hosts"] for part in mine if part.manifest["hosts"]), {})
        together._name_missing(max(part.manifest["world"] for part in mine), known, "")
        session.become_one_of_many(place, {})
        children.take_in(session, place)
        if together.is_whole:
            checking.judge(session, place, together.codes)
        report = session.report(together.end)
        together.apply(report)
        left = len(found) - len(mine)
        if left:
            report.add_note(f"{left} part{'s' * (left > 1)} of other runs in {folder} left out")
        return report
    finally:
        scratch.remove(place)


def _ranks_of(found: list[parts.Part]) -> set[int]:
    return {rank for part in found for rank in part.manifest["ranks"]}


def _grouped(ranks: set[int], hosts_of: dict[str, str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for rank in sorted(ranks):
        found.setdefault(hosts_of.get(str(rank), ""), set()).add(rank)
    return found


def _by_host(ranks: set[int], hosts_of: dict[str, str]) -> str:
    return ", ".join(
        f"{_ranks(each)}{f' on {name}' if name else ''}" for name, each in _grouped(ranks, hosts_of).items()
    )


def _ranks(ranks: Iterable[int]) -> str:
    return load_bridge().rank_ranges(sorted(ranks))
