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

from locus import children, places, ranks, source
from locus.ranks import findings, flight

_PATIENCE = 2.0
"""Seconds that a state must last before it is believed: signals and the last lines of a loop take a moment."""

_ELSEWHERE = "waits in another collective"

_FAMILY = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}


_TYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Int": "int32", "Long": "int64",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip


class Listener:
    """Hears of every collective of this process."""

    def __init__(self, session: Any, folder: str, job: str):
        self.session, self.folder, self.job, self.pid = session, folder, job, os.getpid()
        self.own: flight.Flight | None = None
        self.others: dict[int, flight.Flight] = {}
        self.members: dict[str, list[int]] = {}
        self.groups: dict[str, Any] = {}  # those with calls under way, by name
        self.places: dict[Any, dict[str, Any]] = {}  # by code and instruction
        self.thread: threading.Thread | None = None
        self.stopped: dict[int, float] = {}
        self.reported = self.left = False

    def on_call(self, group: Any, facts: dict[str, Any]) -> None:
        """Before a collective starts: note it, and compare it with what the others have called."""
        error = self.session.safely("a collective", self._hear, group, facts)
        if error:
            raise RuntimeError(error)

    def on_sharing(self, group: Any, device: str, sharing: list[int]) -> bool:
        """Ranks of a group use one device: a finding, and on with it."""
        from locus.ranks import devices

        name = next((name for name, each in self.groups.items() if each is group), "")
        numbers = self._global(name, group.size(), sharing)
        self.session.safely("a shared device", devices.report_sharing, self.session, device, numbers)
        return True

    def _hear(self, group: Any, facts: dict[str, Any]) -> str:
        self.groups[facts["group"]] = group
        if facts["name"] in ("send", "recv"):
            return ""
        call = flight.Call(facts["group"], facts["sequence"], facts["name"], facts["shape"], facts["dtype"],
                           facts["elements"], facts["root"], facts["reduction"], self._place())  # fmt: skip
        own = self._own()
        own.write(call)
        key = flight.group_key(call.group)
        for rank in self._members(call.group, facts["size"]):
            other = self._other(rank)
            if other is None or not other.has(key, call.sequence):
                continue
            theirs = other.read(key, call.sequence)
            if theirs is not None and not _fit(call, theirs):
                return self._report_mismatch(call, rank, theirs)
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, name="locus-ranks", daemon=True)
            self.thread.start()
        return ""

    def _own(self) -> flight.Flight:
        if self.own is None:
            self.own = flight.Flight(os.path.join(self.folder, flight.file_name(self.job, self.pid)), create=True)
            self.own.write_header(_rank(), ranks.world(), flight.RUNNING)
            atexit.register(self.end)
        return self.own

    def end(self) -> None:
        """This process has come to its end by itself, or goes on to another job."""
        self.left = True
        if self.own is not None and os.getpid() == self.pid:
            self.own.write_header(_rank(), ranks.world(), flight.ENDED)

    def _members(self, group: str, size: int) -> list[int]:
        """The other ranks of a group, by their global numbers."""
        if group not in self.members:
            from torch.distributed import distributed_c10d as c10d

            found = [list(numbers) for pg, numbers in c10d._world.pg_group_ranks.items() if _name(pg) == group]
            everyone = found[0] if found and found[0] else list(range(size))
            if not found:
                return [rank for rank in everyone if rank != _rank()]  # still being made
            self.members[group] = [rank for rank in everyone if rank != _rank()]
        return self.members[group]

    def _global(self, group: str, size: int, numbers: list[int]) -> list[int]:
        """The global numbers of a group's ranks."""
        everyone = sorted([*self._members(group, size), _rank()])
        return [everyone[number] for number in numbers if number < len(everyone)]

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

    def _report_mismatch(self, call: flight.Call, rank: int, theirs: flight.Call) -> str:
        """Two calls that do not fit, or that wait for each other: the same words on both ranks, so that it is one."""
        mine = _rank()
        (low, first), (high, second) = sorted([(mine, call), (rank, theirs)])
        words = [
            f"rank {number}: {_words(each)} at {_at(each.place)}" for number, each in ((low, first), (high, second))
        ]
        if (call.group, call.sequence) == (theirs.group, theirs.sequence):
            number = f"as number {call.sequence} of their group"
            message = f"ranks {low} and {high} called collectives that do not fit, {number}"
            difference = _difference(first, second)
        else:
            message = f"ranks {low} and {high} wait for each other, each in a collective that the other has not called"
            difference = f"number {first.sequence} of one group and number {second.sequence} of another"
            if first.group == second.group:
                difference = f"numbers {first.sequence} and {second.sequence} of one group"
        self.session.add_finding(findings.make(
            "ranks-part-ways", message, "; ".join(words) + f": {difference}",
            _full(first.place), _full(second.place), op=call.name, ranks=[low, high],
            notes=[_advice(call, theirs)], step=self.session.bridge.steps(),
        ))  # fmt: skip
        return f"locus: {message}: {'; '.join(words)}"

    def _watch(self) -> None:
        tick = threading.Event()
        while os.getpid() == self.pid and not self.left and not tick.wait(0.5):
            self.session.safely("watching the ranks", self._look)
            if self.reported:
                return

    def _look(self) -> None:
        pending = []
        for name, group in list(self.groups.items()):
            numbers = [number for number in group._pending() if number > 0]
            if numbers:
                pending.append((min(numbers), name))
            else:
                del self.groups[name]  # not held longer than needed: the program may be done with it
        own = self._own()
        since = own.header()[4]
        if not pending:
            if since:
                own.write_header(_rank(), ranks.world(), flight.RUNNING)
            return None
        number, name = min(pending)
        group, key = self.groups[name], flight.group_key(name)
        if own.header()[5:] != (key, number) or not since:
            own.write_header(_rank(), ranks.world(), flight.RUNNING, flight.now(), key, number)
            return None
        if flight.now() - since < _PATIENCE:
            return None
        call = own.read(key, number)
        if call is None:
            return None
        for rank in self._members(call.group, group.size()):
            theirs = other.read(key, number) if (other := self._other(rank)) is not None else None
            if theirs is not None and not _fit(call, theirs):
                self.reported = True
                return group._give_up(self._report_mismatch(call, rank, theirs))
            why = "" if self._arrived(rank, key, number) else self._why_missing(rank)
            elsewhere = other.read(*other.header()[5:]) if why == _ELSEWHERE and other is not None else None
            if elsewhere is not None:
                self.reported = True
                return group._give_up(self._report_mismatch(call, rank, elsewhere))
            if why:
                return self._report_missing(group, call, rank, why)
        return None

    def _arrived(self, rank: int, key: int, number: int) -> bool:
        other = self._other(rank)
        return other is not None and (other.has(key, number) or other.last().get(key, 0) >= number)

    def _why_missing(self, rank: int) -> str:
        """Why a rank will not come; "" while it still may."""
        other = self._other(rank)
        if other is None:
            return ""
        pid, _, _, state, since, key, number = other.header()
        now, process = flight.now(), flight.process_state(pid)
        if process == "T":
            first = self.stopped.setdefault(rank, now)
            return f"is stopped (process {pid})" if now - first >= _PATIENCE else ""
        self.stopped.pop(rank, None)
        if state == flight.ENDED or process in ("", "Z"):
            return f"has ended (process {pid})"
        if since and now - since >= _PATIENCE and self._stuck(rank, key, number):
            return _ELSEWHERE
        return ""

    def _stuck(self, rank: int, key: int, number: int) -> bool:
        """Whether what a waiting rank waits for lacks somebody who waits too: then neither will ever go on."""
        mine = self._own()
        if mine.header()[5] == key:  # one group: it waits for a later or earlier number than this rank
            return not mine.has(key, number)
        return not mine.has(key, number) or mine.last().get(key, 0) < number

    def _report_missing(self, group: Any, call: flight.Call, rank: int, why: str) -> None:
        self.reported = True
        finding = missing_finding(self.session, call, [_rank()], rank, why, self._other(rank))
        self.session.add_finding(finding)
        group._give_up(f"locus: {finding['message']}: {finding['why']}")


def missing_finding(
    session: Any, call: flight.Call, waiting: list[int], rank: int, why: str, other: flight.Flight | None
) -> dict[str, Any]:
    """The finding that a rank did not come to a call."""
    last = None
    if other is not None:
        numbers = other.last()
        key = flight.group_key(call.group)
        last = other.read(key, numbers[key]) if key in numbers else None
    came = f"; its last call was number {last.sequence}, {_words(last)} at {_at(last.place)}" if last else ""
    who = ", ".join(str(number) for number in sorted(waiting))
    message = f"rank {rank} did not come to collective {call.sequence}, {_words(call)}"
    return findings.make(
        "rank-missing", message,
        f"rank{'s' if len(waiting) > 1 else ''} {who} wait{'' if len(waiting) > 1 else 's'} at {_at(call.place)}; "
        f"rank {rank} {why}{came}",
        _full(call.place), _full(last.place) if last else None, op=call.name,
        culprit={"name": f"rank {rank}", "kind": "variable"}, ranks=waiting,
    )  # fmt: skip


def _user_frame(frame: Any) -> Any:
    while frame is not None and not places.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _rank() -> int:
    number = ranks.rank()
    return -1 if number is None else number


def _name(group: Any) -> str:
    return str(getattr(group, "group_name", ""))


def _fit(one: flight.Call, other: flight.Call) -> bool:
    if _FAMILY.get(one.name, one.name) != _FAMILY.get(other.name, other.name) or one.dtype != other.dtype:
        return False
    uneven = one.name in ("gather", "scatter") or min(one.elements, other.elements) < 0
    if not uneven and one.elements != other.elements:
        return False
    return one.root == other.root and one.reduction == other.reduction


def _words(call: flight.Call) -> str:
    kind = f" of {_TYPES.get(call.dtype, call.dtype.lower())}{list(call.shape)}" if call.dtype else ""
    root = f" with root {call.root}" if call.root >= 0 else ""
    return f"{call.name}(){kind}{root}"


def _difference(one: flight.Call, other: flight.Call) -> str:
    if _FAMILY.get(one.name, one.name) != _FAMILY.get(other.name, other.name):
        return "another call"
    if one.dtype != other.dtype:
        return "another type"
    if one.root != other.root:
        return "another root"
    if one.reduction != other.reduction:
        return f"another reduction, {one.reduction} and {other.reduction}"
    return "another number of elements"


def _advice(one: flight.Call, other: flight.Call) -> str:
    if one.name == other.name and one.sequence == other.sequence and one.group == other.group:
        return "give every rank the same shape and type, by padding or by exchanging the sizes first"
    return (
        "every rank must make the same calls in the same order; look for a branch or a loop that differs between ranks"
    )


def _at(place: dict[str, Any]) -> str:
    return f"{os.path.basename(place['file'])}:{place['line']}" if place["line"] else "an unknown line"


def _full(place: dict[str, Any]) -> dict[str, Any]:
    return {**place, "text": source.line_text(place["file"], place["line"])}


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
    for key in sorted({key for last in lasts.values() for key in last}):
        numbers = {rank: last[key] for rank, last in lasts.items() if key in last}
        first_missing = min(numbers.values()) + 1
        behind = [rank for rank, number in numbers.items() if number < first_missing]
        ahead = sorted(rank for rank in numbers if numbers[rank] >= first_missing)
        if not ahead:
            continue
        for rank in behind:
            call = found[ahead[0]].read(key, first_missing)
            if call is not None:
                session.add_finding(
                    missing_finding(session, call, ahead, rank, _fate(found[rank], rank, codes), found[rank])
                )


def _fate(other: flight.Flight, rank: int, codes: dict[int, int] | None) -> str:
    code = (codes or {}).get(rank)
    if code is not None and code < 0:
        import signal

        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    if code:
        return f"had ended with exit status {code}"
    return "had ended" if other.header()[3] == flight.ENDED else "ended without coming to its end"
