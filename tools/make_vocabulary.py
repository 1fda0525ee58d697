"""Writes what follows from the engine's lists of words (locus/engine/vocabulary.def, codes.def): the Literals of
python/locus/vocabulary.py and the enums of docs/report.schema.json.

    python tools/make_vocabulary.py [--check]

--check changes nothing and fails where one is not what it should be. Needs the standard library only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = {"ACTION": "Action", "KIND": "Kind", "CASE": "CaseKind", "EDIT": "EditKind", "FACT": "Fact"}
MEANINGS = {
    "Action": "What one step of a tensor's history did.",
    "Kind": "What an operand is to the program.",
    "CaseKind": "What a broken rule is about.",
    "EditKind": "What could be done about a mistake.",
    "Fact": "What speaks for or against a candidate.",
    "Reason": "Why a tensor is where it is: the name of a finding's code.",
}
MODULE = ROOT / "python" / "locus" / "vocabulary.py"
SCHEMA = ROOT / "docs" / "report.schema.json"


def read_lists() -> dict[str, list[str]]:
    """The words of each list, by the name of its type."""
    engine = ROOT / "locus" / "engine"
    text = (engine / "vocabulary.def").read_text(encoding="utf-8")
    lists = {name: re.findall(rf'^LOCUS_{macro}\(\w+, "([^"]+)"', text, re.MULTILINE) for macro, name in LISTS.items()}
    codes = (engine / "codes.def").read_text(encoding="utf-8")
    lists["Reason"] = re.findall(r'^LOCUS_CODE\(\w+, "LOC\d+", "([\w-]+)"', codes, re.MULTILINE)
    return lists


def module_text(lists: dict[str, list[str]]) -> str:
    """python/locus/vocabulary.py."""
    parts = [
        '"""The words that cross between C++, Python and reports, as types. Made by tools/make_vocabulary.py."""',
        "from __future__ import annotations",
        "from typing import Literal",
    ]
    for name, words in lists.items():
        members = "".join(f'    "{word}",\n' for word in words)
        parts.append(f'{name} = Literal[\n{members}]\n"""{MEANINGS[name]}"""')
    return "\n\n".join(parts) + "\n"


def schema_text(lists: dict[str, list[str]]) -> str:
    """docs/report.schema.json, with the lists as they are."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    defs = schema["$defs"]
    defs["step"]["properties"]["action"]["enum"] = lists["Action"]
    defs["operand"]["properties"]["kind"]["enum"] = lists["Kind"]
    defs["culprit"]["properties"]["kind"]["enum"] = ["", *lists["Kind"]]
    defs["candidate"]["properties"]["edit"]["enum"] = lists["EditKind"]
    defs["candidate"]["properties"]["facts"]["items"]["enum"] = lists["Fact"]
    defs["finding"]["properties"]["reason"]["enum"] = lists["Reason"]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    lists, stale = read_lists(), []
    for path, text in ((MODULE, module_text(lists)), (SCHEMA, schema_text(lists))):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"not what the lists say: {', '.join(stale)}; run python tools/make_vocabulary.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
