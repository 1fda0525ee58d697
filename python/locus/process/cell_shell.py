"""What `get_ipython()` gives in a notebook that runs as a program: something to call, which does nothing.

No IPython stands behind it. What is left out is noted, as `%magics` are (locus.process.notebooks).
"""

from __future__ import annotations

import sys
from collections.abc import Callable


class Shell:
    """The calls that notebooks make; others are no attributes, so that the program hears of it."""

    def __init__(self, leave_out: Callable[[int, str], None]):
        """`leave_out` hears of each call: its line, and its text."""
        self._leave_out = leave_out

    def run_line_magic(self, magic_name: str, line: str, *_: object, **__: object) -> None:
        """A `%magic`."""
        self._left_out("run_line_magic", magic_name, line)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> None:
        """A `%%magic`; its body is not run either."""
        self._left_out("run_cell_magic", magic_name, line)

    def magic(self, arg_s: str) -> None:
        """A `%magic`, in the old way."""
        self._left_out("magic", arg_s)

    def system(self, cmd: str) -> None:
        """A `!command`."""
        self._left_out("system", cmd)

    def getoutput(self, cmd: str, *_: object, **__: object) -> list[str]:
        """A `!command` whose lines are wanted: there are none."""
        self._left_out("getoutput", cmd)
        return []

    def _left_out(self, name: str, *arguments: object) -> None:
        caller = sys._getframe(2)
        words = ", ".join(map(repr, arguments))
        self._leave_out(caller.f_lineno, f"get_ipython().{name}({words})")
