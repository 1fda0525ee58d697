"""Who holds a tensor that is wrong: the module or optimizer, the device of what is around it, where it was moved."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import TYPE_CHECKING

from locus.program import moments, names, values

if TYPE_CHECKING:
    import torch

    from locus.program.shapes import Owner


def facts_of(match: names.Match, tensor: object) -> Owner | None:
    """The owner of a CASE's operand: the module (or optimizer) that holds the tensor, and where it was moved. None:
    there is none."""
    holder = match.way.holder
    if holder is None:
        return None
    facts: Owner = {
        "name": holder.root_name, "class": type(holder.module).__name__, "path": holder.path,
        "attribute": match.way.attribute, "device": "", "moved_at": None, "moved_to": None,
        "container": match.way.container,
    }  # fmt: skip
    if not values.is_module(holder.module):
        tensors = [p for group in holder.module.param_groups for p in group["params"]]
        facts["device"] = _majority(tensors, None)
        facts["moved_at"], facts["moved_to"] = moments.last_move_of_parameters(holder.module)
        facts["built_at"] = moments.optimizer_place(holder.module)
        return facts
    # The nearest module around the tensor that has others of its own: parts of a model may live on different devices.
    path = holder.path
    while True:
        around = holder.root.get_submodule(path) if path else holder.root
        facts["device"] = majority_device(around, tensor)
        if facts["device"] or not path:
            break
        path = path.rpartition(".")[0]
    facts["moved_at"], facts["moved_to"] = moments.moves_of(holder.module)
    return facts


def majority_device(module: torch.nn.Module, leave_out: object = None) -> str:
    """The device of most of a module's own parameters and buffers, or else of those below it; "" without any."""
    for deep in (False, True):
        inside = list(module.modules()) if deep else [module]
        found = [t for inner in inside for table in (inner._parameters, inner._buffers) for t in table.values()]
        device = _majority(found, leave_out)
        if device:
            return device
    return ""


def _majority(tensors: Iterable[torch.Tensor | None], leave_out: object) -> str:
    count = collections.Counter(str(t.device) for t in tensors if t is not None and t is not leave_out)
    return count.most_common(1)[0][0] if count else ""
