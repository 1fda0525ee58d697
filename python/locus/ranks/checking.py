"""The check of one rank and of all: what is put in place, what goes under a report, what is judged at the end."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING

from locus import faults, scratch
from locus.blame import surroundings
from locus.program import alone, source
from locus.program.end import End
from locus.ranks import ended_by, groups, hosts, membership, record
from locus.watch.session import Session

if TYPE_CHECKING:
    from locus.ranks.spread import Spread

_session: Session | None = None
_spread: Spread | None = None


def leave_word(path: str) -> None:
    """Writes down what other ranks' findings may need to be complete."""
    word = _last_word()
    if word:
        scratch.write(path, word)


def own_word(process: int) -> dict[str, bytes]:
    """The same, as a file; none where there is nothing to say."""
    word = _last_word()
    return {f"{process}.passes": word} if word else {}


def _last_word() -> bytes:
    number = membership.rank()
    if membership.world() < 2 or number is None or _session is None:
        return b""
    from locus.ranks import left_out, reduction

    word = {**reduction.last_word(), **ended_by.last_word(), **left_out.last_word()}
    return json.dumps({"rank": number, **word}).encode() if word else b""


def leave_calls(path: str, cut: bool) -> None:
    """Writes down this rank's collectives, to be compared when all are done; `cut`: the run was ended early."""
    number = membership.rank()
    if alone.is_alone() and _session is not None and number is not None and membership.world():
        known = {name: (group.label, group.members) for name, group in record.groups().items()}
        text = _session.bridge.journal_text(number, membership.world(), cut, known)
        scratch.write(path, text.encode())
        record.leave(final=True)


def own_cluster() -> dict[str, object] | None:
    """What this rank says of itself and its part of the cluster; None where all ranks run."""
    if not alone.is_alone() or _session is None or _spread is None:
        return None
    same = [
        f"what other ranks gave was taken to be the same at {os.path.basename(file)}:{line}, {_times(count)}"
        for file, line, count in _session.bridge.taken_as_same()
        if file
    ]
    return {
        "ranks": [{"rank": _spread.rank, "parameters": _spread.bytes}],
        "meshes": record.meshes(),
        "placements": list(_spread.placements.values()),
        "replicas": _spread.replicas,
        "unknown": same,
    }


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def compare(session: Session, folder: str, calls: dict[str, bytes], codes: dict[int, int]) -> None:
    """Ranks that ran by themselves, as if they had run together."""
    fates = _fates(session, folder, codes)
    for problem in session.bridge.compare_journals(calls, fates, source.line_text, surroundings.around):
        faults.note("the calls of a rank", ValueError(problem))


def _fates(session: Session, folder: str, codes: dict[int, int]) -> dict[int, tuple[int, str, str]]:
    """How each rank ended: its status, the signal and the error that ended it."""
    errors = session.safely("the errors of ranks", ended_by.read, folder) or {}
    return {
        rank: (code, End.by_signal(-code).by if code < 0 else "", errors.get(rank, "")) for rank, code in codes.items()
    }


def judge(session: Session, folder: str, codes: dict[int, int] | None = None) -> None:
    """What only somebody who has seen all ranks can say; after their reports were taken in."""
    fates = _fates(session, folder, codes or {})
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
    global _session, _spread
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

    from locus.ranks import left_out, reduction

    groups.install(session)
    reduction.install(session)
    left_out.install(session)
    devices.install(session)
    if alone.is_alone():
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from locus.ranks import spread

        record.install()
        _spread = spread.Spread(int(os.environ["RANK"]))
        register_optimizer_step_post_hook(_spread.at_step)
        # Before the hook that ends a run after so many steps, which is registered when all is installed.
        register_optimizer_step_post_hook(lambda *_: session.bridge.keep_step())
    original = c10d._update_default_pg  # every way of making the first group ends there

    @functools.wraps(original)
    def update_default_pg(group: c10d.ProcessGroup | None) -> None:
        if group is None:
            session.safely("leaving a group", hosts.leave)
        original(group)
        if group is not None:
            session.safely("joining a group", _joined)

    c10d._update_default_pg = update_default_pg  # type: ignore[assignment]


def _joined() -> None:
    membership.join()
    number = membership.rank()
    if _session is not None and number is not None and alone.is_alone():
        _session.bridge.keep_journal()
    elif _session is not None and number is not None:
        from locus.ranks import listener

        job = membership.job()
        hosts.meet(job, _session.is_child)
        listener.install(_session, job, number, membership.world())
