"""What objects hold: the parts of modules, optimizers, containers and plain objects, with names and kinds.

Reads only what is simply there (see values.py).
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from typing import Any

import torch

from locus.program import names, values

_MAX_ELEMENTS = 50


def parts(value: Any, kind: str, reached: bool) -> Iterator[tuple[str, str, Any, bool]]:
    """(name, kind, value, reached) of what an object holds directly."""
    if values.is_module(value):
        found = values.attributes(value)
        for table, inner_kind in (("_parameters", "parameter"), ("_buffers", "buffer"), ("_modules", kind)):
            for name, inner in list((found.get(table) or {}).items()):
                yield name, inner_kind, inner, reached
        for name, inner in found.items():
            if name not in names.MODULE_FIELDS:
                yield name, "plain attribute" if values.is_tensor(inner) else "in a plain attribute", inner, False
    elif isinstance(value, torch.optim.Optimizer):
        spots = {}
        for number, group in enumerate(value.param_groups):
            spots.update((id(p), f"param_groups[{number}][{place}]") for place, p in enumerate(group["params"]))
        for parameter, state in list(value.state.items()):
            label = f"state[{spots.get(id(parameter), '…')}]"
            for key, inner in list(state.items()) if isinstance(state, dict) else ():
                yield f"{label}[{json.dumps(key)}]", "optimizer state", inner, True
        for number, group in enumerate(value.param_groups):
            for place, parameter in enumerate(group["params"]):
                yield f"param_groups[{number}][{place}]", "parameter", parameter, True
    elif isinstance(value, (dict, collections.UserDict)):
        data = value.data if isinstance(value, collections.UserDict) else value
        for key, inner in list(data.items())[:_MAX_ELEMENTS]:
            yield f"[{key!r}]" if not isinstance(key, str) else f"[{json.dumps(key)}]", kind, inner, reached
    elif isinstance(value, (list, tuple, collections.deque)):
        fields = getattr(type(value), "_fields", ())
        for number, inner in enumerate(list(value)[:_MAX_ELEMENTS]):
            yield fields[number] if fields else f"[{number}]", kind, inner, reached
    elif names.is_walked(value):
        for name, inner in values.attributes(value).items():
            yield str(name), kind if kind != "tensor" else "attribute", inner, reached
