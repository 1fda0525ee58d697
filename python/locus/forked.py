"""CUDA in a worker that was forked: PyTorch's error reaches the parent as text. Here it becomes a finding that names the
line of the worker's code; the program then gets its error, for there is no going on without the batch.
"""

from __future__ import annotations

import functools
import linecache
import re
from typing import Any

_SENTENCE = "Cannot re-initialize CUDA in forked subprocess"
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)

_installed = False


def install(bridge: Any) -> None:
    """Looks at what workers raise, once a process."""
    global _installed
    if _installed:
        return
    _installed = True
    from torch._utils import ExceptionWrapper

    original = ExceptionWrapper.reraise

    @functools.wraps(original)
    def reraise(self: Any) -> Any:
        if _SENTENCE in self.exc_msg and bridge.policy_state() > 0:
            from locus import reporter

            reporter.add_case(make_case(self.exc_msg, bridge.steps()))
        return original(self)

    ExceptionWrapper.reraise = reraise


def offer_of(use: dict[str, Any]) -> list[dict[str, Any]]:
    """An offer (see Session.offers) that leaves the tensor on the CPU, for the main process to move."""
    from locus import rewriting, source

    file = source.load(use["file"])
    edit = rewriting.without_cuda(file, use["line"]) if file is not None else None
    place = {"file": use["file"], "line": use["line"], "name": "", "expression": "", "device": ""}
    return [{**place, "edits": {"stay_on_cpu": edit}}] if edit is not None else []


def make_case(traceback: str, step: int) -> dict[str, Any]:
    """The CASE of a worker's traceback: the innermost line of the program's own code is the one to edit."""
    from locus import places

    use, library = places.unknown_location(), None
    for match in _FRAME.finditer(traceback):
        place = {**places.unknown_location(), "file": match["file"], "line": int(match["line"]),
                 "function": match["function"]}  # fmt: skip
        place["text"] = linecache.getline(place["file"], place["line"]).rstrip("\n")
        if places.is_user_file(place["file"]):
            use, library = place, None
        else:
            library = place
    return {"kind": "fork", "op": "a worker", "overload": "", "error": _SENTENCE, "use": use, "library": library,
            "stack": [use], "in_backward": False, "forward": None, "step": step, "caught_by": None, "device": "cuda:0",
            "operands": []}  # fmt: skip
