"""CUDA in a worker that was forked: PyTorch's error reaches the parent as text.

Here it becomes a finding that names the line of the worker's code, and the program goes on with the batch as its own
process makes it; where that can't be had (no map-style dataset, or a handler that means to catch the error) the program
gets the error.
"""

from __future__ import annotations

import functools
import linecache
import random
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils.data import dataloader

from locus import faults
from locus.fixing import rewriting
from locus.program import places, source
from locus.watch import handlers, reporter

if TYPE_CHECKING:
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    from locus._bridge import Bridge
    from locus.program.shapes import Candidate, Case, Location


_SENTENCE = "Cannot re-initialize CUDA in forked subprocess"
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


@functools.cache
def install(bridge: Bridge) -> None:
    """Looks at what workers raise, once a process."""
    owner = dataloader._MultiProcessingDataLoaderIter
    next_index: Callable[..., object] = owner._next_index
    process: Callable[..., object] = owner._process_data

    @functools.wraps(next_index)
    def remember_index(self: _MultiProcessingDataLoaderIter) -> object:
        index = next_index(self)
        if bridge.policy_state() > 0:
            self.__dict__.setdefault("_locus_indices", {})[self._send_idx] = index
        return index

    @functools.wraps(process)
    def process_data(self: _MultiProcessingDataLoaderIter, data: object, *rest: object) -> object:
        indices = self.__dict__.get("_locus_indices", {})
        index = indices.pop(self._rcvd_idx - 1, None)
        if _SENTENCE in getattr(data, "exc_msg", "") and bridge.policy_state() > 0:
            data = _go_on(bridge, self, data, index)
        return process(self, data, *rest)

    owner._next_index, owner._process_data = remember_index, process_data  # type: ignore[assignment]


def _go_on(bridge: Bridge, loader: _MultiProcessingDataLoaderIter, failure: Any, index: object) -> object:
    """The batch that the worker could not make; the failure itself where there is no going on."""
    wanted, caught_by = handlers.find_handler(sys._getframe(), RuntimeError)
    if wanted == handlers.RAISE:
        return failure
    if bridge.policy_state() != reporter.MOVE:
        reporter.add_case({**make_case(failure.exc_msg, bridge.steps()), "caught_by": caught_by})
    in_order = getattr(loader, "_in_order", True)
    if index is None or not in_order or loader._dataset_kind != 0:  # 0: a dataset with indices
        return failure
    try:
        fetcher = dataloader._DatasetKind.create_fetcher(
            loader._dataset_kind, loader._dataset, loader._auto_collation, loader._collate_fn, loader._drop_last
        )
        # A worker has its own random numbers; the program's stay as they are.
        numpy = sys.modules.get("numpy")
        states = random.getstate(), numpy.random.get_state() if numpy is not None else None
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            batch = fetcher.fetch(index)
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])
        return batch
    except Exception as error:
        faults.note("a worker's batch", error)
        return failure


def _staying(use: Location) -> list[Candidate]:
    """The candidate that leaves the tensor on the CPU, for the main process to move."""
    file = source.load(use["file"])
    edit = rewriting.without_cuda(file, use["line"]) if file is not None else None
    return [{"edit": "stay_on_cpu", "at": use, "fix": edit}] if edit is not None else []


def innermost(traceback: str) -> tuple[Location, Location | None]:
    """(the innermost line of the program's own code in a traceback's text, the library's line inside of it or None)."""
    use, library = places.unknown_location(), cast("Location | None", None)
    for match in _FRAME.finditer(traceback):
        place: Location = {**places.unknown_location(), "file": match["file"], "line": int(match["line"]),
                           "function": match["function"]}  # fmt: skip
        place["text"] = linecache.getline(place["file"], place["line"]).rstrip("\n")
        # A traceback tells no columns: the whole line, without its indentation.
        place["column"] = len(place["text"]) - len(place["text"].lstrip())
        place["end_line"], place["end_column"] = place["line"], len(place["text"])
        if places.is_user_file(place["file"]):
            use, library = place, None
        else:
            library = place
    return use, library


def make_case(traceback: str, step: int) -> Case:
    """The CASE of a worker's traceback: the innermost line of the program's own code is the one to edit."""
    use, library = innermost(traceback)
    return {"kind": "fork", "op": "a worker", "overload": "", "error": _SENTENCE, "use": use, "library": library,
            "stack": [use], "in_backward": False, "forward": None, "step": step, "caught_by": None, "device": "cuda:0",
            "operands": [], "candidates": _staying(use)}  # fmt: skip
