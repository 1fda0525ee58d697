"""Fills the reference pages from the code: what stands between `<!-- made: NAME -->` and `<!-- end of NAME -->`.

    python tools/make_reference.py [--check] [PAGE …]

NAME is `command check`, `python locus.place`, `schema` or `pytest`. --check changes nothing and fails where a page is
not what it should be. Run it where Locus is installed.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
SCHEMA = ROOT / "docs" / "report.schema.json"


# -- the command line


def command(name: str) -> str:
    """The usage and every option of a subcommand."""
    from locus.commands.cli import _build_parser

    commands = next(a for a in _build_parser()._actions if isinstance(a, argparse._SubParsersAction)).choices
    parser = commands[name]
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ")).strip()
    usage = usage.replace(f" {parser.prog} ", f"\n    {parser.prog} ")  # a second way to call it
    rows = ["| option | meaning |", "| --- | --- |"]
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or action.dest == "help":
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        words = metavar if action.option_strings == [] else ", ".join(action.option_strings)
        if action.option_strings and action.nargs != 0:
            words += f" {'MODULE' if words == '-m' else 'CODE' if words == '-c' else metavar}"
        rows.append(f"| {_cell(f'`{words}`')} | {_cell(action.help or '')} |")
    return "\n".join([_sentence(parser.description), "", f"    {usage}", "", *rows])


def pytest_options() -> str:
    """The options of the pytest plugin."""
    from locus.pytest import plugin

    rows = ["| option | meaning |", "| --- | --- |"]
    rows += [f"| `{name}` | {_cell(words)} |" for name, words in plugin._FLAGS.items()]
    for name, (metavar, words) in plugin._OPTIONS.items():
        rows.append(f"| {_cell(f'`{name} {metavar}`')} | {_cell(words)} |")
    return "\n".join(rows)


def _sentence(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


# -- the Python API


def python(path: str) -> str:
    """Signature, words and members of one public name."""
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    return "\n".join(_described(path, thing))


def _described(path: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        bases = [base.__name__ for base in thing.__bases__]
        yield f"    class {path}({', '.join(bases)})"
    elif inspect.isclass(thing) and hasattr(thing, "_fields"):
        yield f"    class {path}(NamedTuple)"
    elif inspect.isclass(thing):
        yield f"    class {path}{_signature(thing.__init__, skip=1)}".removesuffix(" -> None")
    else:
        yield f"    {path}{_signature(thing)}"
    yield ""
    yield from _words(inspect.getdoc(thing) or "")
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        yield from _members(thing)


def _members(kind: type) -> Iterator[str]:
    base = kind.__bases__[0]
    if base.__module__ == kind.__module__:
        yield from ("", f"Has the members of `locus.{base.__name__}`, too.")
        return
    rows = []
    if hasattr(kind, "_fields"):
        notes = _field_notes(kind)
        for field in kind._fields:
            rows.append((f"`{field}`", _type(kind.__annotations__[field]), notes.get(field, "")))
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or name in getattr(kind, "_fields", ()) or _is_inherited(kind, name):
            continue
        if isinstance(member, property):
            given = inspect.signature(member.fget).return_annotation
            kind_of = "Any" if given is inspect.Signature.empty else _type(given)
            rows.append((f"`{name}`", kind_of, inspect.getdoc(member) or ""))
        elif callable(member):
            called = f"`{name}{_signature(member, skip=1, result=False)}`"
            rows.append((called, _result(member), inspect.getdoc(member) or ""))
    if rows:
        yield from ("", "| member | type | what |", "| --- | --- | --- |")
        for row in rows:
            name, kind_of, words = map(_cell, row)
            yield f"| {name} | `{kind_of}` | {words} |"


def _is_inherited(kind: type, name: str) -> bool:
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return not owner.__module__.startswith("locus")


def _field_notes(kind: type) -> dict[str, str]:
    """The strings that stand below the fields of a NamedTuple."""
    import ast

    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    notes, last = {}, ""
    for node in tree.body[0].body:
        if isinstance(node, ast.AnnAssign):
            last = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            notes[last] = _sentence(node.value.value)
    return notes


def _signature(function: Any, skip: int = 0, result: bool = True) -> str:
    signature = inspect.signature(function)
    given = list(signature.parameters.values())[skip:]
    parts, starred = [], False
    for each in given:
        if each.kind is each.KEYWORD_ONLY and not starred:
            if not any(other.kind is other.VAR_POSITIONAL for other in given):
                parts.append("*")
            starred = True
        text = ("*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else "") + each.name
        if each.annotation is not each.empty:
            text += f": {_type(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {each.default!r}" if each.annotation is not each.empty else f"={each.default!r}"
        parts.append(text)
    words = f"({', '.join(parts)})"
    return words + (f" -> {_result(function)}" if result and signature.return_annotation is not signature.empty else "")


def _result(function: Any) -> str:
    return _type(inspect.signature(function).return_annotation)


def _type(annotation: Any) -> str:
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if text == "Name":  # the four policies
        from locus.api import policies

        return " | ".join(repr(each) for each in typing.get_args(policies.Name))
    return text.replace("'", "")


def _words(text: str) -> Iterator[str]:
    """A docstring as Markdown: `Args:` and the like become lists."""
    in_list = False
    for line in text.splitlines():
        title = re.fullmatch(r"(Args|Returns|Raises):", line)
        entry = re.fullmatch(r"    (\S[^:]*): (.*)", line) if in_list else None
        if title:
            in_list = True
            yield f"{title[1] if title[1] != 'Args' else 'Arguments'}:"
            yield ""
        elif entry:
            yield f"- `{entry[1]}`: {entry[2]}"
        elif in_list and line.strip():
            yield f"  {line.strip()}" if line.startswith("     ") else f"- {line.strip()}"
        else:
            in_list = in_list and bool(line.strip())
            yield line


# -- the JSON report


def schema() -> str:
    """Every object of the report and every field of it."""
    whole = json.loads(SCHEMA.read_text(encoding="utf-8"))
    lines = ["### The report", "", whole["description"], "", *_fields(whole)]
    for name, each in whole["$defs"].items():
        lines += ["", f"### {name}", "", each["description"], "", *_fields(each)]
    return "\n".join(lines)


def _fields(each: dict[str, Any]) -> list[str]:
    rows = ["| field | type | what |", "| --- | --- | --- |"]
    for name, field in each["properties"].items():
        optional = "" if name in each.get("required", []) else " Not always there."
        words = field.get("description", "") + optional
        rows.append(f"| `{name}` | {_json_type(field)} | {_cell(words.strip())} |")
    return rows


def _json_type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        shown = field["enum"] if len(field["enum"]) <= 4 else []
        return ", ".join(f"`{each}`" for each in shown) or "a word of a fixed list"
    if "anyOf" in field:
        return " or ".join(_json_type(each) for each in field["anyOf"])
    kind = field.get("type")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_json_type(field['items'])}"
    if kind == "object" and "additionalProperties" in field:
        return f"object of {_json_type(field['additionalProperties'])}"
    return str(kind)


# -- the pages


def filled(text: str) -> str:
    """A page with its made parts as they should be."""

    def make(match: re.Match[str]) -> str:
        kind, _, name = match["name"].partition(" ")
        named, unnamed = {"command": command, "python": python}, {"schema": schema, "pytest": pytest_options}
        made = named[kind](name) if kind in named else unnamed[kind]()
        return f"<!-- made: {match['name']} -->\n{made}\n<!-- end of {match['name']} -->"

    pattern = r"<!-- made: (?P<name>[^>]+?) -->\n.*?<!-- end of (?P=name) -->"
    return re.sub(pattern, make, text, flags=re.S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a page is stale")
    parser.add_argument("pages", nargs="*", type=Path, default=sorted(PAGES.glob("*.md")))
    options = parser.parse_args()
    stale = []
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        new = filled(text)
        if new != text:
            stale.append(page.name)
            if not options.check:
                page.write_text(new, encoding="utf-8")
    if options.check and stale:
        print(f"stale: {', '.join(stale)}. Run tools/make_reference.py, or the tests with LOCUS_UPDATE_DOCS=1.")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
