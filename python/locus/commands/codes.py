"""`locus codes`: every kind of mistake that Locus names, and the page of one of them, in the terminal."""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap

from locus.commands.output import show
from locus.errors import SetupError, UsageError
from locus.process import pages, screen

SUMMARY = "list the findings' codes, or show the page of one"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = "locus codes [CODE ...]"
    parser.add_argument("codes", metavar="CODE", nargs="*", help="show the page of this code, such as LOC003")


def execute(arguments: argparse.Namespace) -> int:
    """Prints the list, or the pages."""
    known = pages.codes()
    if not known:
        raise SetupError("the findings' pages are missing from this installation of Locus. Install it again.")
    wanted = [_find(code, known) for code in arguments.codes]
    color = screen.look(1).color
    text = "\n\n".join(as_text(page, color) for page in wanted) if wanted else _list(known, color)
    show(text + "\n")
    return 0


def _find(name: str, known: dict[str, pages.Page]) -> pages.Page:
    for page in known.values():
        if name.upper() == page.code or name.lower() == page.reason:
            return page
    if number := re.fullmatch(r"(?i)(?:LOC)?[-_ ]?(\d+)", name):  # the nearest in spelling would mean nothing
        first, *_, last = known
        meant = f"LOC{int(number[1]):03}"
        hint = f"Did you mean {meant}?" if meant in known else f"They go from {first} to {last};"
        raise UsageError(f"{name} is no code. {hint} `locus codes` lists them.")
    near = difflib.get_close_matches(name.upper(), known, 1) or difflib.get_close_matches(
        name.lower(), [page.reason for page in known.values()], 1
    )
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(f"{name} is no code.{hint} `locus codes` lists them.")


def _list(known: dict[str, pages.Page], color: bool) -> str:
    width = max(len(page.reason) for page in known.values())
    return "\n".join(
        f"{_bold(page.code, color)}  {page.severity:7}  {page.reason:{width}}  {page.title}" for page in known.values()
    )


def as_text(page: pages.Page, color: bool = False) -> str:
    """A page without the marks of Markdown, wrapped; programs stay as they are."""
    text = re.sub(r"<!--.*?-->\s*", "", page.text, flags=re.DOTALL)
    shown: list[str] = []
    for block in re.split(r"(^```python\n.*?^```\n)", text, flags=re.MULTILINE | re.DOTALL):
        if block.startswith("```"):
            code = block.split("\n", 1)[1].rsplit("```", 1)[0]
            shown.append(textwrap.indent(code.rstrip("\n"), "    "))
            continue
        for paragraph in re.split(r"\n\s*\n", block.strip("\n")):
            heading = re.fullmatch(r"#+ (.+)", paragraph.strip())
            if heading:
                shown.append(_bold(heading[1], color))
            elif paragraph.strip():
                shown.append(textwrap.fill(" ".join(paragraph.split()), 80))
    return "\n\n".join(shown)


def _bold(text: str, color: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if color else text
