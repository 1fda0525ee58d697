"""Keeps what a rank sees by itself."""

from __future__ import annotations

from locus.blame.seen import Facts
from locus.watch import reporter
from locus.watch.session import Session


def report(session: Session, facts: Facts) -> None:
    """Makes a finding of what was seen."""
    session.bridge.add_seen(facts.as_json(session.bridge.steps()))
    reporter.note_change()
