"""The cells of a notebook that is open in a kernel. IPython makes up a file for each; people know them by number."""

from __future__ import annotations

import json
import linecache
import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_inner: dict[str, int] = {}


class Shown:
    """What shows itself: in a notebook once for a cell, though it is shown and also the cell's value."""

    _shown_in: int | None = None

    def show(self) -> None:
        """Prints it; in a notebook, shows it as a table."""
        if shell() is None:
            print(self)
        else:
            self._ipython_display_()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        running = shell()
        count = None if running is None else running.execution_count
        if count is not None and self._shown_in == count:
            return
        self._shown_in = count
        try:
            from IPython.display import display
        except ImportError:
            print(self)
            return
        display({"text/html": self._repr_html_(), "text/plain": str(self)}, raw=True)


def shell() -> InteractiveShell | None:
    """IPython's, where the program runs in one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def note(file: str, number: int) -> None:
    """A cell that ran inside of another one, and so under that one's number."""
    _inner[file] = number


def numbers() -> dict[str, int]:
    """The files of the cells that have run, and their numbers."""
    running = shell()
    if running is None:
        return {}
    known: dict[str, int] = dict(getattr(running.compile, "_filename_map", {}))
    for name in list(linecache.cache):
        match = re.match(r"<ipython-input-(\d+)-", name)
        if match:
            known.setdefault(name, int(match[1]))
    return {**known, **_inner}


def is_cell(file: str) -> bool:
    """Whether a file is one of these."""
    return file in numbers()


def shown(file: str) -> str:
    """What people call a file: `Cell In[3]`, or its name without the folder."""
    number = numbers().get(file)
    return os.path.basename(file) if number is None else f"Cell In[{number}]"


def named(data: str) -> str:
    """JSON with cells by their numbers."""
    for file, number in numbers().items():
        name = f"Cell In[{number}]"
        data = data.replace(json.dumps(file)[1:-1], name)
        data = data.replace(json.dumps(file, ensure_ascii=False)[1:-1], name)
        data = re.sub(rf"\b{re.escape(os.path.basename(file))}(?=:\d)", name, data)
    return data
