"""The documentation is true: its links lead somewhere, its snippets run, its transcripts are what Locus prints.

A block of ```python or ```sh with `<!-- run -->` before it is run, in a folder with train.py, broken.py and examples/;
`<!-- run: 1 -->` says with which exit code (of the last command) it ends. Python runs on a machine with two simulated
devices, unless it calls locus.simulate() itself. In sh, a line is `locus …` or `python FILE …`, with variables before it.

`<!-- transcript: locus check FILE | CODE … -->` stands before a block with what that prints: the program's lines, these
findings, the last line. LOCUS_UPDATE_DOCS=1 in the environment writes those blocks anew.
"""

import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    + list((ROOT / "docs" / "how-to").glob("*.md"))
)
BLOCK = re.compile(
    r"^<!-- (?P<mark>run|transcript)(?:: (?P<detail>[^>]+?))? -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
DEADLINE = 120.0


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    detail: str
    text: str


def blocks(mark):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            if match["mark"] == mark:
                line = text.count("\n", 0, match.start()) + 1
                block = Block(page, line, match["language"], match["detail"] or "", match["text"])
                yield pytest.param(block, id=f"{page.relative_to(ROOT)}:{line}")


@pytest.fixture
def folder(tmp_path):
    """Where snippets run: the programs they speak of are there."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "examples" / "train_two_gpus.py", tmp_path / "train.py")
    shutil.copy(ROOT / "examples" / "broken_training.py", tmp_path / "broken.py")
    return tmp_path


def run_python(program, text, folder):
    simulate = None if "locus.simulate(" in text else 2
    return program.run_source(text, simulate=simulate, cwd=folder, deadline=DEADLINE)


def run_command(program, line, folder):
    words = shlex.split(line, comments=True)
    env = {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, _, env[name] = words.pop(0).partition("=")
    if words[0] == "locus":
        return program.call("locus.cli:main", words[1:], env=env, cwd=folder, deadline=DEADLINE)
    assert words[0] == "python", f"only locus and python are run: {line}"
    from locus.simulation import options_from_environment

    options = options_from_environment(env)
    machine = options and {"devices": options.devices, "memory": options.memory_bytes, "rng": options.rng}
    return program.run(folder / words[1], *words[2:], simulate=machine, env=env, cwd=folder, deadline=DEADLINE)


@pytest.mark.parametrize("block", list(blocks("run")))
def test_snippet(program, folder, block):
    expected = int(block.detail or 0)
    if block.language == "python":
        result = run_python(program, block.text, folder)
        assert result.code == expected, f"{block.text}\n{result.describe()}"
        return
    lines = [line for line in block.text.replace("\\\n", " ").splitlines() if shlex.split(line, comments=True)]
    for line in lines:
        result = run_command(program, line, folder)
        assert result.code == (expected if line is lines[-1] else 0), f"{line}\n{result.describe()}"


def transcript(program, block):
    """The block as it should be."""
    command, _, codes = block.detail.partition("|")
    result = run_command(program, command, ROOT)
    # The runner's own handler stands around a program here, and nowhere else.
    report = re.sub(r"\n   = note: [^=]*?forkrunner\.py[^=]*(?=\n   =)", "", result.stderr)
    parts = report.rstrip("\n").split("\n\n")
    shown = [f"$ {command.strip()}", *result.stdout.splitlines()]
    for part in parts[:-1]:
        if any(f"[{code}]" in part.splitlines()[0] for code in codes.split()):
            shown += [*part.splitlines(), ""]
        elif shown[-2:] != ["…", ""]:
            shown += ["…", ""]
    return "\n".join([*shown, *parts[-1].splitlines()]) + "\n"


def without_time(text):
    """Words only: how long it took moves the ends of lines, too."""
    return re.sub(r"\d+\.\d+ s\b", "… s", " ".join(text.split()))


@pytest.mark.skipif(
    not metadata.version("torch").startswith("2.13.") or sys.version_info < (3, 11),
    reason="transcripts show lines of PyTorch 2.13, with carets",
)
@pytest.mark.parametrize("block", list(blocks("transcript")))
def test_transcript(program, block):
    actual = transcript(program, block)
    if os.environ.get("LOCUS_UPDATE_DOCS") and without_time(actual) != without_time(block.text):
        text = block.page.read_text(encoding="utf-8")
        block.page.write_text(text.replace(f"\n{block.text}```", f"\n{actual}```", 1), encoding="utf-8")
        return
    assert without_time(actual) == without_time(block.text), "LOCUS_UPDATE_DOCS=1 writes the transcript anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs") and page.name != "README.md":
            assert f"({page.relative_to(ROOT / 'docs').as_posix()})" in index, f"{page.name} is not in docs/README.md"


def test_paths_and_options_that_are_named_exist():
    """`locus/bridge/door.cc` and the like in the text; what a shell sees is tested above."""
    for page in PAGES:
        for path in re.findall(r"`((?:locus|python|tests|tools|docs|examples|cmake|bench)/[\w./-]*\w)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name} speaks of {path}, which is not there"
