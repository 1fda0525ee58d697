"""The reference pages say what the code says, and speak of every public name, command and option."""

import os
import re
from pathlib import Path

from locus.commands import COMMANDS

import locus
from locus import errors

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


def test_pages_are_up_to_date(program):
    check = [] if os.environ.get("LOCUS_UPDATE_DOCS") else ["--check"]
    program.run(ROOT / "tools" / "make_reference.py", *check).ok()


def made(page):
    return set(re.findall(r"<!-- made: (.+?) -->", (PAGES / page).read_text()))


def test_every_public_name_is_there():
    elsewhere = ("__version__", "errors", "PlacementWarning")
    names = {f"python locus.{name}" for name in locus.__all__ if name not in elsewhere}
    names |= {f"python locus.errors.{name}" for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert names <= made("python.md"), names - made("python.md")


def test_every_command_is_there():
    assert {f"command {name}" for name in COMMANDS} | {"pytest"} == made("command-line.md")


def test_every_command_stands_under_its_own_heading():
    text = (PAGES / "command-line.md").read_text()
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    found = [
        (title, name) for title, part in sections for name in re.findall(r"<!-- made: (?:command )?(.+?) -->", part)
    ]
    assert found and all(title == name for title, name in found), found


def test_every_name_has_words():
    """An entry is a signature, an empty line, and words."""
    text = (PAGES / "python.md").read_text()
    for name, part in re.findall(r"<!-- made: python (.+?) -->\n(.*?)<!-- end", text, re.S):
        lines = part.splitlines()
        assert lines[0].startswith("    ") and lines[1] == "" and len(lines[2].split()) >= 3, name
