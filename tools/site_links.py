"""For mkdocs: links of the pages to files of the source are only their texts on the site, which has no source."""

from __future__ import annotations

import pathlib
import re
from typing import Protocol

ROOT = pathlib.Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?:#[^)]*)?\)")


class _File(Protocol):
    abs_src_path: str


class _Page(Protocol):
    file: _File


def without_source(markdown: str, page: pathlib.Path) -> str:
    """The text of a page, with links out of docs/ as plain text."""

    def shown(link: re.Match[str]) -> str:
        target = (page.parent / link["target"]).resolve()
        return link[0] if target.is_relative_to(ROOT / "docs") else link["text"]

    return _LINK.sub(shown, markdown)


def on_page_markdown(markdown: str, page: _Page, **_: object) -> str:
    """Called by mkdocs for each page."""
    return without_source(markdown, pathlib.Path(page.file.abs_src_path))
