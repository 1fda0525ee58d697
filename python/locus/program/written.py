"""How the parts of objects are written in a program: `net.layers[0]`, `table["a"]`.

Words only; looks at nothing but what it is given.
"""

from __future__ import annotations

import collections
import json
from typing import Any

import torch

from locus.program import values


def attribute(name: str, attribute: str) -> str:
    """`net.fc`, `layers[0]`: a part by its name."""
    return f"{name}[{attribute}]" if attribute.isdigit() else f"{name}.{attribute}"


def key(key: Any) -> str:
    """The key of an element, where it can be written down."""
    if isinstance(key, str):
        return json.dumps(key, ensure_ascii=False)
    return repr(key) if isinstance(key, (int, float, bool)) else "…"


def child(module: Any, name: str, child: str) -> str:
    """A module inside another one."""
    if isinstance(module, torch.nn.ModuleDict):
        return f"{name}[{json.dumps(child)}]"
    return attribute(name, child)


def container(value: Any) -> str | None:
    """The kind of a plain container, None for what is none."""
    for cls, name in ((dict, "dict"), (tuple, "tuple"), (list, "list"), (set, "set"), (collections.deque, "deque")):
        if isinstance(value, cls):
            return name
    return None


def place_in_groups(optimizer: Any, parameter: Any) -> str:
    """A parameter that no module has, by its place in the optimizer."""
    for group, entry in enumerate(values.attributes(optimizer).get("param_groups") or []):
        for number, candidate in enumerate(entry.get("params", ())):
            if candidate is parameter:
                return f"param_groups[{group}][{number}]"
    return "…"
