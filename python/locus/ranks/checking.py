"""The check of one rank and of all: what is put in place, what goes under a report, what is judged at the end."""

from __future__ import annotations

import functools
import json

from locus import scratch
from locus.blame import surroundings
from locus.program import source
from locus.program.end import End
from locus.ranks import ended_by, membership
from locus.watch.session import Session

_session: Session | None = None


def leave_word(path: str) -> None:
    """Writes down what other ranks' findings may need to be complete."""
    number = membership.rank()
    if membership.world() > 1 and number is not None and _session is not None:
        from locus.ranks import reduction

        word = {**reduction.last_word(), **ended_by.last_word()}
        if word:
            scratch.write(path, json.dumps({"rank": number, **word}))


def judge(session: Session, folder: str, codes: dict[int, int] | None = None) -> None:
    """What only somebody who has seen all ranks can say; after their reports were taken in."""
    errors = session.safely("the errors of ranks", ended_by.read, folder) or {}
    fates = {
        rank: (code, End.by_signal(-code).by if code < 0 else "", errors.get(rank, ""))
        for rank, code in (codes or {}).items()
    }
    session.safely(
        "judging the ranks", session.bridge.judge_ranks, folder, fates, source.line_text, surroundings.around
    )


def drifts(session: Session, folder: str) -> list[str]:
    """What is worth knowing, and no mistake: ranks that add up different rounds of their loops."""
    return session.safely("comparing the loops of ranks", session.bridge.find_drifts, folder) or []


def joined(session: Session, folder: str) -> bool:
    """Whether any rank has made a process group."""
    return bool(session.report(finished=False).ranks or session.bridge.have_met(folder))


def install(session: Session) -> None:
    """Looks at torch.distributed, where PyTorch has it. Once a process."""
    global _session
    import torch

    is_first, _session = _session is None, session
    if not is_first:
        return
    ended_by.install()
    from locus.ranks import devices, optimizers

    devices.install_replicas(session)
    optimizers.install(session)
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    from locus.ranks import reduction

    reduction.install(session)
    devices.install(session)
    original = c10d._update_default_pg  # every way of making the first group ends there

    @functools.wraps(original)
    def update_default_pg(group: c10d.ProcessGroup | None) -> None:
        original(group)
        if group is not None:
            session.safely("joining a group", _joined)

    c10d._update_default_pg = update_default_pg  # type: ignore[assignment]


def _joined() -> None:
    membership.join()
    number = membership.rank()
    if _session is not None and number is not None:
        from locus.ranks import listener

        listener.install(_session, membership.job(), number, membership.world())
