"""The documentation as a site: every page is in its menu, and links to the source are text there."""

import importlib.util
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from docs_blocks import ROOT

DOCS = ROOT / "docs"


def hook():
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "tools" / "site_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(menu):
    for entry in menu:
        for target in entry.values():
            yield from [target] if isinstance(target, str) else entries(target)


def test_every_page_is_in_the_menu():
    menu = list(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "findings" not in path.parts}
    assert set(menu) == pages | {"findings/README.md"} and len(menu) == len(set(menu))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see [action.yml](../../action.yml).", "see action.yml."),
        ("see [`door.cc`](../../locus/bridge/door/door.cc#L3)", "see `door.cc`"),
        ("see [pytest](pytest.md#fixtures)", "see [pytest](pytest.md#fixtures)"),
        ("see [the page](../html-report.png)", "see [the page](../html-report.png)"),
        ("see [SARIF](https://docs.oasis-open.org/)", "see [SARIF](https://docs.oasis-open.org/)"),
    ],
)
def test_links_to_the_source_are_text(text, shown):
    assert hook().without_source(text, DOCS / "how-to" / "ci.md") == shown
