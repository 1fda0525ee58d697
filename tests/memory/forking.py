"""What is measured is measured in a process of its own: nothing is left over from what came before."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import torch


def figures() -> dict[str, int]:
    """Bytes of the current device after a training, at its peak, and reserved."""
    return {
        "after": torch.cuda.memory_allocated(),
        "peak": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
    }


def measure_each(measure: Callable[[str], dict[str, int | str]], names: list[str]) -> None:
    """Prints what `measure` says of each name, a line of JSON each; an error is said, too."""
    torch.set_num_threads(1)
    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                row = measure(name)
            except Exception as error:
                row = {"case": name, "error": f"{type(error).__name__}: {error}"}
            print(json.dumps(row), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
