"""Ranks that part ways: calls that don't fit together are found when the second of them is made; a rank that waits for
one that has stopped, or for one that waits elsewhere, says so and gives up instead of waiting for good.

Slow is no mistake: a rank that works, or sleeps, is waited for as long as the program itself allows.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any

from locus import ranks
from locus.process import children, runner
from locus.program import places
from locus.ranks import calls, flight

_PATIENCE = 2.0
"""Seconds that a state must last before it is believed: signals and the last lines of a loop take a moment."""

_MAX_MESSAGES = 4096


class Listener:
    """Hears of every collective, send and recv of this process."""

    def __init__(self, session: Any, folder: str, job: str):
        self.session, self.folder, self.job, self.pid = session, folder, job, os.getpid()
        self.own: flight.Flight | None = None
        self.others: dict[int, flight.Flight] = {}
        self.members: dict[str, list[int]] = {}
        self.groups: dict[str, Any] = {}  # those with calls under way, by name
        self.messages: dict[tuple[str, int], tuple[int, int]] = {}  # the key and number of the latest, by the group's
        self.counts: dict[str, int] = {}  # of the messages of each channel
        self.places: dict[Any, dict[str, Any]] = {}  # by code and instruction
        self.thread: threading.Thread | None = None
        self.stopped: dict[int, float] = {}
        self.pending: tuple[int, int, float] = (0, 0, 0.0)  # key, number, since when
        self.reported = self.left = False

    def on_call(self, group: Any, facts: dict[str, Any]) -> None:
        """Before a call starts: note it, and compare it with what the others have called."""
        error = self.session.safely("a collective", self._hear, group, facts)
        if error:
            raise RuntimeError(error)

    def on_sharing(self, group: Any, device: str, sharing: list[int]) -> bool:
        """Ranks of a group use one device: a finding, and on with it."""
        from locus.ranks import devices

        name = next((name for name, each in self.groups.items() if each is group), "")
        everyone = self._members(name, group.size())
        numbers = [everyone[number] for number in sharing if number < len(everyone)]
        self.session.safely("a shared device", devices.report_sharing, self.session, device, numbers)
        return True

    def _hear(self, group: Any, facts: dict[str, Any]) -> str:
        self.groups[facts["group"]] = group
        everyone = self._members(facts["group"], facts["size"])
        call = flight.Call(facts["group"], facts["sequence"], facts["name"], facts["shape"], facts["dtype"],
                           facts["elements"], facts["root"], facts["reduction"], self._place())  # fmt: skip
        if facts["name"] in ("send", "recv"):
            peer = everyone[facts["root"]]
            if peer == _rank():
                return ""
            call = self._message(call, peer, facts["tag"])
            everyone = [peer]
        self._own().write(call)
        for rank in everyone:
            other = self._other(rank) if rank != _rank() else None
            if other is None or not other.has(call.key(), call.sequence):
                continue
            theirs = other.read(call.key(), call.sequence)
            if theirs is not None and not calls.fit(call, theirs):
                return self._report(calls.mismatch(_rank(), call, rank, theirs))
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, name="locus-ranks", daemon=True)
            self.thread.start()
        return ""

    def _message(self, call: flight.Call, peer: int, tag: int) -> flight.Call:
        """A send or recv, with its number between the two ranks: the n-th that is sent is the n-th that is received."""
        source, target = (_rank(), peer) if call.name == "send" else (peer, _rank())
        name = flight.channel(call.group, source, target, tag)
        number = self.counts[name] = self.counts.get(name, 0) + 1
        self.messages[call.group, call.sequence] = (flight.group_key(name), number)
        if len(self.messages) > _MAX_MESSAGES:
            del self.messages[next(iter(self.messages))]
        return call._replace(group=name, sequence=number, root=peer)

    def _own(self) -> flight.Flight:
        if self.own is None:
            path = os.path.join(self.folder, flight.file_name(self.job, self.pid))
            self.own = flight.Flight(path, create=True)
            self.own.write_header(_rank(), ranks.world(), flight.RUNNING)
            atexit.register(self.end)
        return self.own

    def end(self) -> None:
        """This process has come to its end by itself, or goes on to another job."""
        self.left = True
        if self.own is not None and os.getpid() == self.pid:
            self.own.write_header(_rank(), ranks.world(), flight.ENDED)

    def _members(self, group: str, size: int) -> list[int]:
        """The ranks of a group by their global numbers, in the group's own order."""
        if group not in self.members:
            from torch.distributed import distributed_c10d as c10d

            found = [list(numbers) for pg, numbers in c10d._world.pg_group_ranks.items() if _name(pg) == group]
            if not found or not found[0]:
                return list(range(size))  # still being made
            self.members[group] = found[0]
        return self.members[group]

    def _other(self, rank: int) -> flight.Flight | None:
        if rank not in self.others:
            self.others.update({r: f for r, f in flight.all_flights(self.folder, self.job).items() if r != _rank()})
        return self.others.get(rank)

    def _place(self) -> dict[str, Any]:
        """The program's line that made the call; in a backward pass, the one that called backward()."""
        frame = _user_frame(sys._getframe(1))
        if frame is None:  # a thread of autograd's: the program waits in its own
            frame = _user_frame(sys._current_frames().get(threading.main_thread().ident or 0))
        if frame is None:
            return places.unknown_location()
        key = (frame.f_code, frame.f_lasti)
        if key not in self.places:
            if len(self.places) >= 4096:
                self.places.clear()
            self.places[key] = places.frame_location(frame)
        return self.places[key]

    def _report(self, finding: dict[str, Any]) -> str:
        """Adds a finding; the words for the error that ends the call."""
        self.session.add_finding({**finding, "first_step": self.session.bridge.steps()})
        return f"locus: {finding['message']}: {finding['why']}"

    def _watch(self) -> None:
        tick = threading.Event()
        while os.getpid() == self.pid and not self.left and not tick.wait(0.5):
            self.session.safely("watching the ranks", self._look)
            if self.reported:
                return

    def _look(self) -> None:
        """Twice a second: is a call under way that will never end?"""
        pending = self._oldest()
        own, now = self._own(), flight.now()
        if pending is None:
            self.pending = (0, 0, 0.0)
            if own.header()[4]:
                own.write_header(_rank(), ranks.world(), flight.RUNNING)
            return
        key, number, group, is_blocked = pending
        if self.pending[:2] != (key, number):
            self.pending = (key, number, now)
        # What the others see: since when this rank can do nothing but wait.
        if not is_blocked and own.header()[4]:
            own.write_header(_rank(), ranks.world(), flight.RUNNING)
        elif is_blocked and (own.header()[5:] != (key, number) or not own.header()[4]):
            own.write_header(_rank(), ranks.world(), flight.RUNNING, now, key, number)
        call = own.read(key, number)
        if call is None or now - self.pending[2] < _PATIENCE:
            return
        finding = self._judge(call)
        if finding is not None:
            self.reported = True
            group._give_up(self._report(finding))

    def _oldest(self) -> tuple[int, int, Any, bool] | None:
        """The call that this rank waits for: its key and number, its group, whether a thread can't go on without it."""
        found = []
        for name, group in list(self.groups.items()):
            waited, under_way = group._waited_for(), group._pending()
            if not under_way:
                del self.groups[name]  # not held longer than needed: the program may be done with it
            for number in under_way:
                is_blocked = number in waited or (number > 0 and _in_backward())
                if number > 0:
                    found.append((not is_blocked, number, flight.group_key(name), number, group))
                elif is_blocked and (message := self.messages.get((name, -number))):  # others are merely on their way
                    found.append((False, -number, *message, group))
        if not found:
            return None
        free, _, key, number, group = min(found, key=lambda entry: entry[:2])
        return key, number, group, not free

    def _judge(self, call: flight.Call) -> dict[str, Any] | None:
        """The finding that a call will never end; None while it still may."""
        for rank in self._partners(_rank(), call):
            other = self._other(rank)
            theirs = other.read(call.key(), call.sequence) if other is not None else None
            if theirs is not None and not calls.fit(call, theirs):
                return calls.mismatch(_rank(), call, rank, theirs)
            if not self._has_come(rank, call) and (why := self._why_gone(rank)):
                return calls.missing(call, [_rank()], rank, why, other)
        ring = self._ring([(_rank(), call)]) if self._waits(_rank()) == call else None
        return calls.deadlock(ring) if ring else None

    def _partners(self, rank: int, call: flight.Call) -> list[int]:
        """The other ranks that a rank's call needs; none where it is of a group that this process does not know."""
        return [call.root] if call.is_message() else [each for each in self._members(call.group, 0) if each != rank]

    def _flight(self, rank: int) -> flight.Flight | None:
        return self._own() if rank == _rank() else self._other(rank)

    def _has_come(self, rank: int, call: flight.Call) -> bool:
        other = self._flight(rank)
        return other is not None and other.has_come(call.key(), call.sequence)

    def _waits(self, rank: int) -> flight.Call | None:
        """The call in which a rank has been held up for a while."""
        other = self._flight(rank)
        if other is None:
            return None
        since, key, number = other.header()[4:]
        return other.read(key, number) if since and flight.now() - since >= _PATIENCE else None

    def _ring(self, path: list[tuple[int, flight.Call]]) -> list[tuple[int, flight.Call]] | None:
        """Ranks from this one on, each held up by the next, and the last by this one: none will ever go on."""
        rank, call = path[-1]
        for other in self._partners(rank, call):
            if self._has_come(other, call):
                continue
            if other == path[0][0]:
                return path
            theirs = self._waits(other) if all(other != seen for seen, _ in path) else None
            if theirs is not None and (ring := self._ring([*path, (other, theirs)])):
                return ring
        return None

    def _why_gone(self, rank: int) -> str:
        """Why a rank will not come; "" while it still may."""
        other = self._other(rank)
        if other is None:
            return ""
        pid, _, _, state = other.header()[:4]
        now, process = flight.now(), flight.process_state(pid)
        if process == "T":
            first = self.stopped.setdefault(rank, now)
            return f"is stopped (process {pid})" if now - first >= _PATIENCE else ""
        self.stopped.pop(rank, None)
        return f"has ended (process {pid})" if state == flight.ENDED or process in ("", "Z") else ""


def _in_backward() -> bool:
    """Whether the program is inside a backward pass, which waits for its collectives without a word."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and "/torch/autograd/" in frame.f_code.co_filename


def _user_frame(frame: Any) -> Any:
    while frame is not None and not places.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _rank() -> int:
    number = ranks.rank()
    return -1 if number is None else number


def _name(group: Any) -> str:
    return str(getattr(group, "group_name", ""))


_listener: Listener | None = None


def install(session: Any, job: str) -> None:
    """Listens, where there is a folder in which the ranks of a job can meet."""
    global _listener
    folder = children.folder()
    if not os.path.isdir(folder):
        return
    if _listener is not None and _listener.pid == os.getpid():
        _listener.end()
    _listener = Listener(session, folder, job)
    session.bridge.listen_to_collectives(_listener.on_call, _listener.on_sharing)


def judge(session: Any, folder: str, codes: dict[int, int] | None = None) -> None:
    """After the end of all: a rank that had ended when others still called collectives is a finding."""
    for job in flight.jobs(folder):
        _judge_job(session, flight.all_flights(folder, job), codes)


def _judge_job(session: Any, found: dict[int, flight.Flight], codes: dict[int, int] | None) -> None:
    lasts = {rank: each.last() for rank, each in found.items()}
    for key in sorted({key for last in lasts.values() for key in last if not flight.is_channel(key)}):
        numbers = {rank: last[key] for rank, last in lasts.items() if key in last}
        first_missing = min(numbers.values()) + 1
        behind = [rank for rank, number in numbers.items() if number < first_missing]
        ahead = sorted(rank for rank in numbers if numbers[rank] >= first_missing)
        if not ahead:
            continue
        for rank in behind:
            call = found[ahead[0]].read(key, first_missing)
            if call is not None:
                session.add_finding(calls.missing(call, ahead, rank, _fate(found[rank], rank, codes), found[rank]))


def _fate(other: flight.Flight, rank: int, codes: dict[int, int] | None) -> str:
    code = (codes or {}).get(rank)
    if code is not None and code < 0:
        return f"was killed by {runner.End.by_signal(-code).by}"
    if code:
        return f"had ended with exit status {code}"
    return "had ended" if other.header()[3] == flight.ENDED else "ended without coming to its end"
