"""Compares a report with docs/report.schema.json: the part of JSON Schema that the schema uses, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))

_TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
    "number": (int, float),
}  # fmt: skip
_KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties",
    "items", "anyOf", "enum", "const", "minimum", "maximum", "pattern", "minItems", "maxItems",
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any] = SCHEMA, at: str = "report") -> list[str]:
    """What is wrong with a value, by its place."""
    unknown = set(schema) - _KNOWN
    assert not unknown, f"the schema uses {unknown}, which is not compared here"
    if "$ref" in schema:
        return problems(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], at)
    found: list[str] = []
    if "anyOf" in schema and all(problems(value, option, at) for option in schema["anyOf"]):
        found.append(f"{at} is none of what it may be: {value!r}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{at} is {value!r}, not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is {value!r}")
    if "type" in schema and not _has_type(value, schema["type"]):
        return [*found, f"{at} is {type(value).__name__}, not {schema['type']}"]
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{at} is {value!r}")
    if isinstance(value, dict):
        found += [f"{at} has no {name}" for name in schema.get("required", []) if name not in value]
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            if known is False:
                found.append(f"{at} has {name}, which the schema does not know")
            elif isinstance(known, dict):
                found += problems(inner, known, f"{at}.{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += problems(inner, schema.get("items", {}), f"{at}[{number}]")
    return found


def _has_type(value: Any, names: str | list[str]) -> bool:
    for name in [names] if isinstance(names, str) else names:
        if isinstance(value, _TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number")):
            return True
    return False
