"""Hears of every collective, send and recv of this process, and hands them to the C++ side (locus/engine/ranks), which
compares them with those of the other ranks. Here is only what needs frames and process groups.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import types
from typing import TYPE_CHECKING, Protocol

from locus import scratch
from locus.blame import surroundings
from locus.program import moments, places, source
from locus.ranks import devices, far_calls, hosts, left_out
from locus.watch import reporter
from locus.watch.session import Session

if TYPE_CHECKING:
    from locus._bridge import RankCall
    from locus.program.shapes import Location

_MAX_PLACES = 4096
_MAX_CALLERS = 4  # of the program's own functions on the way to a call, that function itself among them


class Group(Protocol):
    """A process group of simulated devices: locus/bridge/distributed/carrier.h."""

    def size(self) -> int: ...
    def _pending(self) -> list[int]: ...
    def _waited_for(self) -> list[int]: ...
    def _give_up(self, why: str, /) -> None: ...


class Listener:
    """This process as a rank of one job."""

    def __init__(self, session: Session, folder: str, job: str, rank: int, world: int):
        self.session, self.pid = session, os.getpid()
        self.far = far_calls.FarCalls(session, folder, job, rank)
        self.meeting = session.bridge.Meeting(folder, job, rank, world, surroundings.around)
        self.members: dict[str, list[int]] = {}
        self.groups: dict[str, Group] = {}  # those with calls under way, by name
        self.places: dict[tuple[types.CodeType, int], Location] = {}  # by code and instruction
        self.thread: threading.Thread | None = None
        self.left = threading.Event()

    def on_call(self, group: Group, call: RankCall) -> None:
        """Before a call starts: note it, and compare it with what the others have called."""
        error = self.session.safely("a collective", self._hear, group, call)
        if error:
            raise RuntimeError(error)

    def on_sharing(self, group: Group, device: str, sharing: list[int]) -> bool:
        """Ranks of a group use one device: a finding, and on with it."""
        name = next((name for name, each in self.groups.items() if each is group), "")
        everyone = self._members(name) or list(range(group.size()))
        numbers = [everyone[number] for number in sharing if number < len(everyone)]
        self.session.safely("a shared device", devices.report_sharing, self.session, device, numbers)
        return True

    def _hear(self, group: Group, call: RankCall) -> str | None:
        if os.getpid() != self.pid:
            return None
        hosts.look()
        self.groups[call.group] = group
        left_out.look_at_call(call.group, self._members)
        known = self._members(call.group)
        everyone = known or list(range(call.size))  # its group is still being made
        error = self.meeting.hear(call, everyone, bool(known), self._places(), moments.feed(), source.line_text)
        if error is not None:
            reporter.note_change()
        elif self.thread is None:
            atexit.register(self.end)
            self.thread = threading.Thread(target=self._watch, name="locus-ranks", daemon=True)
            self.thread.start()
        return error

    def end(self) -> None:
        """This process has come to its end by itself, or goes on to another job."""
        self.left.set()
        self.meeting.end()
        if os.getpid() == self.pid:
            self.session.safely("telling other hosts", self.far.exchange)

    def _members(self, group: str) -> list[int]:
        """The ranks of a group by their global numbers, in the group's own order; none: not known."""
        if group not in self.members:
            from torch.distributed import distributed_c10d as c10d

            found = [list(numbers) for pg, numbers in c10d._world.pg_group_ranks.items() if _name(pg) == group]
            if not found or not found[0]:
                return []
            self.members[group] = found[0]
        return self.members[group]

    def _places(self) -> list[Location]:
        """The program's line that made the call, then those that called the function around it; in a backward pass,
        from the one that called backward()."""
        frame = _user_frame(sys._getframe(1)) or _user_frame(_main_frame())  # a thread of autograd's has no line
        found: list[Location] = []
        while frame is not None and len(found) < _MAX_CALLERS:
            found.append(self._place(frame))
            frame = _user_frame(frame.f_back)
        return found or [places.unknown_location()]

    def _place(self, frame: types.FrameType) -> Location:
        key = (frame.f_code, frame.f_lasti)
        if key not in self.places:
            if len(self.places) >= _MAX_PLACES:
                self.places.clear()
            self.places[key] = places.frame_location(frame)
        return self.places[key]

    def _watch(self) -> None:
        while os.getpid() == self.pid and not self.left.wait(0.5):
            if self.session.safely("watching the ranks", self._look):
                return

    def _look(self) -> bool:
        """Twice a second: is a call under way that will never end? Then it is ended, with the reason as its error."""
        under_way = []
        for name, group in list(self.groups.items()):
            waited, numbers = group._waited_for(), group._pending()
            if numbers:
                under_way.append((name, self._members(name), numbers, waited))
            else:
                del self.groups[name]  # not held longer than needed: the program may be done with it
        hosts.look()
        self.far.look(bool(under_way))
        stuck = self.meeting.look(under_way, bool(under_way) and _in_backward(), source.line_text)
        if stuck is None:
            return False
        reporter.note_change()
        name, why = stuck
        self.groups[name]._give_up(why)
        return True


def _main_frame() -> types.FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _in_backward() -> bool:
    """Whether the program is inside a backward pass, which waits for its collectives without a word."""
    frame = _main_frame()
    return frame is not None and "/torch/autograd/" in frame.f_code.co_filename


def _user_frame(frame: types.FrameType | None) -> types.FrameType | None:
    while frame is not None and not places.is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _name(group: object) -> str:
    return str(getattr(group, "group_name", ""))


_listener: Listener | None = None


def install(session: Session, job: str, rank: int, world: int) -> None:
    """Listens, where there is a folder in which the ranks of a job can meet."""
    global _listener
    own = scratch.of_check()
    if not os.path.isdir(own):
        return
    folder = hosts.meeting_folder(own, session.is_child)
    if _listener is not None and _listener.pid == os.getpid():
        _listener.end()
    _listener = Listener(session, folder, job, rank, world)
    if folder != own:
        far_calls.keep(folder, own, job)
    session.bridge.listen_to_collectives(_listener.on_call, _listener.on_sharing)  # type: ignore[arg-type]  # size()
