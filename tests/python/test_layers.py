"""Who may include whom, read off the #include lines of every C++ file."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

ALLOWED = {
    "engine": {"engine"},
    "report": {"report", "engine"},
    "sim": {"sim"},
    "bridge": {"bridge", "engine", "report", "sim"},
}
"""Each room, and the rooms whose headers it may include."""

TORCH_FREE = ("engine", "report", "sim")
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
