"""Which functions with tensor code never ran: what a clean report does not speak of.

Costs the program nothing: Python 3.10 and 3.11 count a function's first runs themselves (the bridge reads that), from
3.12 on sys.monitoring tells of each function's first start, once. Only files that the program has loaded are looked
at, and the other modules of its packages. Where something is not known, nothing is said.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import json
import os
import sys
import types
from typing import TYPE_CHECKING, TypeAlias

from locus import scratch
from locus.program import places, source

if TYPE_CHECKING:
    from locus._bridge import Bridge
    from locus.program.shapes import NotRun


MOST = 200
"""The most functions that a report lists."""

_ANYBODY = set(
    [
        "name",
        "names",
        "share",
        "type",
        "data",
        "apply",
        "train",
        "eval",
        "children",
        "where",
        "all",
        "any",
        "max",
        "min",
        "sum",
        "mean",
        "round",
    ]
)
_ANYBODY |= set(["size", "shape", "new", "store", "map", "load", "set", "put", "fill", "add_module"])
_LIBRARIES = ("torch", "torchvision", "torchaudio", "transformers")
_MOST_FILES = 300

_Def: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"


class Coverage:
    """What ran, from start() on."""

    def __init__(self) -> None:
        self._started: set[types.CodeType] | None = None
        self._tool = -1
        self._bridge: Bridge = None  # type: ignore[assignment]  # until start()
        self._forks = 0
        self._elsewhere: set[tuple[str, int, str]] = set()
        self._is_complete = True

    def start(self, bridge: Bridge) -> None:
        """Begins to look, before the program's first line."""
        self._bridge = bridge
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None:
            return
        free = [number for number in (4, 3, 5) if monitoring.get_tool(number) is None]
        if not free:
            return
        self._tool, self._started = free[0], set()
        monitoring.use_tool_id(self._tool, "locus")
        started = self._started

        def begin(code: types.CodeType, offset: int) -> object:
            started.add(code)
            return monitoring.DISABLE

        monitoring.register_callback(self._tool, monitoring.events.PY_START, begin)
        monitoring.set_events(self._tool, monitoring.events.PY_START)

    def _has_run(self, code: types.CodeType) -> bool | None:
        if self._started is not None:
            return code in self._started
        if hasattr(sys, "monitoring"):
            return None  # nobody told us
        return self._bridge.has_run(code)

    # --- Processes that the program starts: what they ran has run ---

    def count_fork(self) -> None:
        """This process has forked: a word is expected of the child."""
        self._forks += 1

    def begin_in_child(self, folder: str, forked: bool) -> None:
        """In a child: a word will come of it."""
        self._forks = 0
        if not forked:
            with contextlib.suppress(OSError):
                scratch.write(os.path.join(folder, f"{os.getpid()}.started"), b"")

    def leave_word(self, folder: str) -> None:
        """At the end of a child: which functions of the program ran there."""
        scratch.write(os.path.join(folder, f"{os.getpid()}.ran"), self._word())

    def own_word(self, process: int) -> dict[str, bytes]:
        """The same of this process, as files that say that it was expected, and has spoken."""
        return {f"{process}.started": b"", f"{process}.ran": self._word()}

    def _word(self) -> bytes:
        ran = [_key(code) for code in _codes_of_the_program() if self._has_run(code)]
        return json.dumps({"forks": self._forks, "ran": ran}).encode()

    def take_in(self, folder: str) -> None:
        """Hears the words of all children. One that has not spoken may have run anything: then nothing is claimed."""
        expected, heard = self._forks, 0
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            expected += name.endswith(".started")
            if name.endswith(".ran"):
                word = json.loads(scratch.read(os.path.join(folder, name)))
                heard += 1
                expected += word["forks"]
                self._elsewhere.update((file, line, function) for file, line, function in word["ran"])
        self._is_complete = heard >= expected

    def not_run(self) -> list[NotRun]:
        """Functions with tensor code that never ran, and such files that were never loaded; in order."""
        if not self._is_complete:
            return []
        try:
            missing = [*self._functions(), *self._files()]
        except Exception:
            return []  # a fault of ours; nothing is claimed
        return sorted(missing, key=lambda each: (each["file"], each["line"]))[:MOST]

    def _functions(self) -> list[NotRun]:
        tensor_code: dict[str, dict[tuple[int, str], _Def]] = {}
        runs: dict[tuple[str, int, str], bool] = {}
        names: dict[tuple[str, int, str], str] = {}
        for code in _codes_of_the_program():
            file = code.co_filename
            if file not in tensor_code:
                tensor_code[file] = functions_with_tensors(file)
            key = _key(code)
            if key[1:] not in tensor_code[file]:
                continue
            ran = key in self._elsewhere or self._has_run(code)
            runs[key] = runs.get(key, False) or ran is None or ran  # one of several twins is enough
            names[key] = places.function_name(code)
        return [
            {"file": key[0], "function": names[key], "line": tensor_code[key[0]][key[1:]].lineno}
            for key, ran in runs.items()
            if not ran
        ]

    def _files(self) -> list[NotRun]:
        """Modules of the program's own packages that nobody imported."""
        missing: list[NotRun] = []
        seen: set[str] = set()
        files = {f for m in list(sys.modules.values()) if isinstance(f := getattr(m, "__file__", None), str)}
        own = sorted(file for file in files if places.is_user_file(file))
        packages = [file for file in own if os.path.basename(file) == "__init__.py"]
        if not packages:
            return []
        ran_elsewhere = {os.path.realpath(file) for file, _, _ in self._elsewhere}
        loaded = {os.path.realpath(file) for file in own}
        for file in packages:
            folder = os.path.dirname(os.path.realpath(file))
            for entry in sorted(os.listdir(folder)):
                path = os.path.join(folder, entry)
                if not entry.endswith(".py") or path in loaded | ran_elsewhere | seen or len(seen) > _MOST_FILES:
                    continue
                seen.add(path)
                if entry not in ("__main__.py", "setup.py", "conftest.py") and not entry.startswith("test_"):
                    if functions_with_tensors(path):
                        missing.append({"file": path, "function": "", "line": 0})
        return missing


def _key(code: types.CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_name


def _codes_of_the_program() -> list[types.CodeType]:
    """The code of every function that is alive and the program's own, and of the functions inside them."""
    found: dict[int, types.CodeType] = {}
    is_own: dict[str, bool] = {}
    stack = [f.__code__ for f in gc.get_objects() if type(f) is types.FunctionType]
    while stack:
        code = stack.pop()
        file = code.co_filename
        if file not in is_own:
            is_own[file] = not file.startswith("<") and places.is_user_file(file)
        if not is_own[file] or id(code) in found:
            continue
        found[id(code)] = code
        stack += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return list(found.values())


def functions_with_tensors(file: str) -> dict[tuple[int, str], _Def]:
    """The functions of a file in whose own lines tensors are handled, by the first line and name of their code."""
    loaded = source.load(file)
    if loaded is None or "jit.script" in loaded.text:
        return {}  # Python never runs what TorchScript does: nothing is claimed
    bound = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(loaded.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0] in _LIBRARIES
    }
    found: dict[tuple[int, str], _Def] = {}
    for node in ast.walk(loaded.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _handles_tensors(node, bound):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first, node.name] = node
    return found


@functools.cache
def _tensor_methods() -> frozenset[str]:
    """Names of methods that tensors and modules have and everyday objects have not."""
    torch = sys.modules["torch"]
    theirs = {name for kind in (torch.Tensor, torch.nn.Module) for name in dir(kind) if not name.startswith("_")}
    everyday = {name for kind in (str, bytes, list, dict, set, int, float, object) for name in dir(kind)}
    return frozenset(theirs - everyday - _ANYBODY)


def _handles_tensors(function: _Def, bound: set[str]) -> bool:
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in _tensor_methods() and bound:
                return True
            while isinstance(called, ast.Attribute):
                called = called.value
            if isinstance(called, ast.Name) and called.id in bound:
                return True
        stack += ast.iter_child_nodes(node)
    return getattr(function, "name", "") == "forward" and bool(bound)
