"""What Python may see of a mistake that is no operator's is what the C++ side has words for."""

import pathlib
import re
import typing

from locus.blame import seen

HEADER = pathlib.Path(__file__).parents[2] / "locus" / "engine" / "ranks" / "seen.h"


def test_the_kinds_are_those_of_the_engine():
    known = re.findall(r'^  each\(k\w+, "([^"]+)"', HEADER.read_text(), re.MULTILINE)
    assert len(known) > 10 and sorted(typing.get_args(seen.Seen)) == sorted(known)


def test_the_facts_are_those_of_the_engine():
    fields = re.search(r"^struct Facts \{(.*?)^\};", HEADER.read_text(), re.MULTILINE | re.DOTALL)[1]
    known = re.findall(r"^  [\w:<>]+ (\w+)(?: = [^;]+)?;", fields, re.MULTILINE)
    assert sorted([*seen.Facts.__dataclass_fields__, "step"]) == sorted(known)
