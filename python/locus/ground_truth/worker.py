"""A process that runs cases: reads which from standard input, writes what came of each to its own standard output.

Each line is one JSON object. In: {"entry": number, "behind": cases to leave out}. Out, for each entry: {"at": […]}, a
case's number, key and shapes, before it runs; {"row": […]} after it; {"done": number} or {"unmade": why} at the end. So
whoever started it knows in which case it died. The first line of all says what PyTorch and which device these are, or
why there is none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING

import locus
from locus.ground_truth import cases, table

if TYPE_CHECKING:
    import types


POISON = ("device-side assert", "illegal memory", "CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS", "cuFFT error")
POISONED = 3
"""The exit code of a process whose CUDA context is of no more use."""
_MOST_WORDS = 220


def rows_of(
    entry: cases.Entry,
    behind: int = 0,
    known: Container[table.Key] | None = None,
    before: Callable[[int, table.Key, str], None] | None = None,
) -> Iterator[table.Row]:
    """Runs the cases of an entry, without the first `behind`; only those in `known`, where that is given.

    `before` is told the number, key and shapes of each.
    """
    import torch

    torch.manual_seed(0)
    for number, case in enumerate(entry.cases()):
        if number < behind:
            continue
        key = table.Key(*entry[:3], case.dtype, case.sample, case.operand, case.moved)
        if known is not None and key not in known:
            continue
        if before is not None:
            before(number, key, case.shapes)
        yield table.Row(key, case.shapes, said_by(case.call))


def said_by(call: Callable[[], object]) -> table.Said:
    """What PyTorch says to a call."""
    import torch

    try:
        devices = _devices(call(), torch)
        torch.cuda.synchronize()
        return table.Said("ok", devices)
    except Exception as error:
        line = (str(error).splitlines() or [""])[0].replace('"/pytorch/aten', '"aten')
        return table.Said(type(error).__name__, " ".join(line.split())[:_MOST_WORDS])


def _devices(result: object, torch: types.ModuleType) -> str:
    """The devices of a result's tensors: one name if they agree, else all in order."""
    found = [str(leaf.device) for leaf in cases.flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    return (found[0] if len(set(found)) == 1 else ",".join(found)) if found else "-"


def begin(simulated: bool) -> dict[str, object]:
    """Gets the devices ready; {"torch": …, "device": …, "cuda": …}, or {"error": why there are none}."""
    torch = cases.prepare()
    if simulated:
        locus.simulate(devices=1)
    elif not torch.cuda.is_available():
        build = "is a CPU build" if torch.version.cuda is None else "sees no CUDA device"
        return {"error": f"a table is taken on a CUDA device, and PyTorch {torch.__version__} here {build}. "
                "Run this on a machine with a GPU, or use --simulated for the simulated devices."}  # fmt: skip
    device = "simulated" if simulated else torch.cuda.get_device_name(0)
    return {"torch": torch.__version__, "device": device, "cuda": torch.version.cuda, "simulated": simulated}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the cases print is no answer

    def say(**what: object) -> None:
        answers.write(json.dumps(what) + "\n")

    given = json.loads(sys.argv[1])
    known = None
    try:
        about = begin(given["simulated"])
        entries = cases.entries(tuple(given["dtypes"])) if "error" not in about else []
        known = table.read(given["known"]).rows if given["known"] is not None else None
    except Exception as error:
        about, entries = {"error": f"{type(error).__name__}: {error}"}, []
    say(about=about, entries=[entry[:3] for entry in entries] if given["list"] else [])
    for line in sys.stdin:
        asked = json.loads(line)
        entry = entries[asked["entry"]]
        try:
            for row in rows_of(entry, asked["behind"], known, lambda *case: say(at=case)):
                say(row=row)
                if any(word in row.said.detail for word in POISON):
                    os._exit(POISONED)
            say(done=asked["entry"])
        except Exception as error:  # the database can't make its samples here
            say(unmade=f"{type(error).__name__}: {str(error)[:150]}")
    os._exit(0)


if __name__ == "__main__":
    main()
