"""Who may include and import whom, read off the #include lines of every C++ file and the imports of the package."""

import ast
import functools
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

ALLOWED = {
    "engine": {"engine"},
    "order": {"order"},
    "report": {"report", "engine"},
    "sim": {"sim"},
    "bridge": {"bridge", "engine", "order", "report", "sim"},
}
"""Each room, and the rooms whose headers it may include."""

TORCH_FREE = ("engine", "order", "report", "sim")
TORCH_OR_PYTHON = re.compile(r"(torch|ATen|c10|caffe2|pybind11)/|Python\.h$|pybind11")
GENERATED = {"locus/version.h", "locus/bridge/rules.inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def includes(folder):
    """(file, quote, header) of every include line of the C++ files in `folder`."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".h", ".cc", ".inc"):
            for quote, header in INCLUDE.findall(path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT).as_posix(), quote, header


@pytest.mark.parametrize("room", ALLOWED)
@pytest.mark.parametrize("tree", ["locus", "tests", "bench"])
def test_a_room_includes_only_the_rooms_below_it(tree, room):
    wrong = []
    for file, _, header in includes(f"{tree}/{room}"):
        match = re.match(r"locus/(\w+)/", header)
        if match and match.group(1) not in ALLOWED[room]:
            wrong.append(f"{file} includes {header}")
    assert not wrong


@pytest.mark.parametrize("room", TORCH_FREE)
@pytest.mark.parametrize("tree", ["locus", "tests", "bench"])
def test_torch_and_python_stay_in_the_bridge(tree, room):
    wrong = [
        f"{file} includes {header}" for file, _, header in includes(f"{tree}/{room}") if TORCH_OR_PYTHON.match(header)
    ]
    assert not wrong


def test_the_include_path_is_the_file_path():
    wrong = []
    for file, quote, header in includes("locus"):
        if quote == '"' and header not in GENERATED and not (ROOT / header).is_file():
            wrong.append(f'{file} includes "{header}", which is no path from the root of the tree')
    assert not wrong


def test_every_room_is_known():
    rooms = {path.name for path in (ROOT / "locus").iterdir() if path.is_dir()}
    assert rooms <= set(ALLOWED), "a new room: say in ALLOWED what it may include"


# -- the Python package

PACKAGE = ROOT / "python" / "locus"

BELOW = {
    "program": set(),
    "fixing": {"program"},
    "blame": {"program", "fixing"},
    "watch": {"program", "fixing", "blame"},
    "surface": {"program"},
    "ranks": {"program", "fixing", "blame", "watch"},
    "process": {"program", "fixing", "blame", "watch", "surface", "ranks"},
    "api": {"program", "fixing", "blame", "watch", "surface", "ranks", "process"},
    "commands": {"program", "fixing", "blame", "watch", "surface", "ranks", "process", "api"},
    "pytest": {"program", "fixing", "blame", "watch", "surface", "ranks", "process", "api"},
    "trainers": {"program", "fixing", "blame", "watch", "surface", "ranks", "process", "api"},
    "notebook": {"program", "fixing", "blame", "watch", "surface", "ranks", "process", "api"},
    "ground_truth": set(),
}
"""Each package, and those that it may import besides itself. Modules at the top are for everybody."""

AT_THE_TOP = {
    "__init__", "__main__", "_building", "_load", "_startup", "_torch_info", "after_import", "errors", "faults",
    "markup", "scratch", "vocabulary",
}  # fmt: skip
MAY_REACH_UP = {"__init__", "__main__", "_startup"}
"""The ways in; other modules at the top import no package."""

LIGHT = {"locus._startup", "locus.pytest.plugin"}
"""Loaded into processes that have nothing to do with Locus (every Python process of a check, every run of pytest):
these import what they need when they need it."""

LONG: set[str] = set()
"""Files of more than 400 lines. The list only gets shorter."""


@functools.cache
def modules():
    """Every module of the package by its dotted name, as a tree."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


class Import(NamedTuple):
    """An import statement and where it stands."""

    node: ast.Import | ast.ImportFrom
    in_function: bool
    for_types: bool
    """Under `if TYPE_CHECKING:`."""
    optional: bool
    """In a `try` that catches its failure."""

    def modules(self):
        """The dotted names of what is imported: of a package's names those that are modules, else the package."""
        if isinstance(self.node, ast.Import):
            return [alias.name for alias in self.node.names]
        assert self.node.level == 0, "imports are absolute"
        whole = [f"{self.node.module}.{alias.name}" for alias in self.node.names]
        return [name if name in modules() else self.node.module for name in whole]


def imports(tree, in_function=False, for_types=False, optional=False):
    """Every import statement of a tree."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield Import(child, in_function, for_types, optional)
        yield from imports(
            child,
            in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)),
            for_types or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"),
            optional or (isinstance(child, ast.Try) and any(map(catches_import_error, child.handlers))),
        )


def catches_import_error(handler):
    return any(isinstance(name, ast.Name) and name.id == "ImportError" for name in ast.walk(handler))


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in BELOW else ""


@functools.cache
def needs_torch():
    """The modules that can't be imported without PyTorch: at their top they import it, or a module that does."""
    tops = {}
    for name, tree in modules().items():
        used = {one for each in imports(tree) if not each.in_function and not each.for_types for one in each.modules()}
        tops[name] = used | ({name.rpartition(".")[0]} if "." in name else set())
    found = {name for name, used in tops.items() if any(one.split(".")[0] == "torch" for one in used)}
    while more := {name for name, used in tops.items() if name not in found and used & found}:
        found |= more
    return found


def test_a_package_imports_only_the_packages_below_it():
    wrong = []
    for name, tree in modules().items():
        mine, short = room(name), name.removeprefix("locus").lstrip(".") or "__init__"
        for each in imports(tree):
            for one in each.modules():
                other = room(one)
                allowed = other in BELOW[mine] if mine else short in MAY_REACH_UP
                if other not in ("", mine) and not allowed:
                    wrong.append(f"{name}:{each.node.lineno} imports {one}")
    assert not wrong


def test_every_package_is_known():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(BELOW)
    assert {path.stem for path in PACKAGE.glob("*.py")} == AT_THE_TOP, "a module belongs in one of the packages"


def test_imports_are_at_the_top_of_a_file():
    """But for PyTorch, which few processes of a check need, and what may not be installed."""
    assert {"locus.blame.facts", "locus.watch.hooks"} <= needs_torch()
    assert not needs_torch() & {"locus", "locus.commands.cli", "locus.process.session", "locus._startup"}
    wrong = []
    for name, tree in modules().items():
        for each in imports(tree):
            early = [one for one in each.modules() if one.split(".")[0] != "torch" and one not in needs_torch()]
            if each.in_function and early and not each.optional and name not in LIGHT:
                wrong.append(f"{name}:{each.node.lineno} imports {', '.join(early)} in a function")
    assert not wrong


def test_a_file_is_read_at_one_sitting():
    files = [path for folder in (PACKAGE, ROOT / "locus") for path in folder.rglob("*")]
    files = [path for path in files if path.suffix in (".py", ".pyi", ".cc", ".h", ".inc", ".def")]
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {file for file, lines in lengths.items() if lines > 400} == LONG


RINGS = {"locus.program.expressions._through_callee.offer", "locus.ranks.devices._plan.moved"}
"""Functions in functions that call themselves. Each forgets what it holds, or holds nothing of the program's frames."""


def test_no_function_keeps_a_frame_by_calling_itself():
    """A function that is defined in another and calls itself is a ring: what it has seen of the program (a frame, and
    with it every tensor there) lives until the next collection."""
    found = set()
    for name, tree in modules().items():
        for outer in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for inner in (node for part in outer.body for node in ast.walk(part) if isinstance(node, ast.FunctionDef)):
                if any(isinstance(each, ast.Name) and each.id == inner.name for each in ast.walk(inner)):
                    found.add(f"{name}.{outer.name}.{inner.name}")
    assert found == RINGS


def test_hardly_anything_is_any():
    """What a type checker can't see may be anything: a shape of its own, `object` or a type guard says more."""
    found = [line for path in PACKAGE.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert 0 < sum(re.search(r"\bAny\b", line) is not None for line in found) <= 100


def test_the_words_of_the_engine_are_those_of_python_and_the_schema():
    made = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "make_vocabulary.py"), "--check"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr


def test_tables_of_names_are_gone_through_at_rest():
    """The program's threads change its globals while an explanation reads them."""
    unsafe = re.compile(r"f_(?:locals|globals)\.(?:items|values|keys)\(|in frame\.f_(?:locals|globals)\b")
    found = [
        f"{path.name}:{number}"
        for path in (ROOT / "python" / "locus").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if unsafe.search(line) and "name in frame.f_locals" not in line
    ]
    assert found == []
