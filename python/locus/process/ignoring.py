"""The comments of a program that speak to Locus, such as `# locus: ignore[LOC003] why`. What they say, and what is
ignored by them, is decided on the C++ side (locus/engine/ignoring.h).
"""

from __future__ import annotations

import io
import tokenize

from locus.program import source


def comments_at(file: str, line: int, text: str) -> list[tuple[int, str]]:
    """(line, comment) of the comments on the lines of a statement; `text` is the line as it was seen."""
    if source.load(file) is None:
        return [(line, text)]  # no source any more
    written = comments_in(file)
    return [(number, written[number]) for number in _lines_of_statement(file, line) if number in written]


def _lines_of_statement(file: str, line: int) -> range:
    loaded = source.load(file)
    statements = loaded.statements_at(line) if loaded is not None else []
    if not statements or hasattr(statements[-1], "body"):  # a block's head: the comment stands on the line itself
        return range(line, line + 1)
    return range(statements[-1].lineno, (statements[-1].end_lineno or line) + 1)


def comments_in(file: str) -> dict[int, str]:
    """The comments of a file that speak to Locus, by line; strings that look like one are none."""
    loaded = source.load(file)
    return loaded.once(_comments_in) if loaded is not None else {}


def _comments_in(loaded: source.Source) -> dict[int, str]:
    found: dict[int, str] = {}
    if "locus:" not in loaded.text:
        return found
    try:
        for token in tokenize.generate_tokens(io.StringIO(loaded.text).readline):
            if token.type == tokenize.COMMENT and "locus:" in token.string:
                found[token.start[0]] = token.string
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read so far still counts
    return found
