"""Keeps measured figures: shown at the end of a run, and in docs/conformance.json when LOCUS_UPDATE_DOCS is set."""

import json
import os
import pathlib

import torch

KEPT = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "conformance.json"


def record(record_property, name, *cells, keep=False):
    """One row: a name, then figures. `keep`: a figure of a whole run, which the docs show."""
    record_property("conformance", [name, *cells])
    if not keep or not os.environ.get("LOCUS_UPDATE_DOCS"):
        return
    versions = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = versions.setdefault(torch.__version__.partition("+")[0], [])
    rows[:] = [row for row in rows if row[0] != name] + [[name, *cells]]
    rows.sort(key=lambda row: row[0])
    KEPT.write_text(json.dumps(versions, indent=1) + "\n")
