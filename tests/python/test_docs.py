"""The documentation is true: its links lead somewhere, its blocks run, its transcripts are what Locus prints.

Every block of every page has a mark (docs_blocks.py). The blocks of a page run from top to bottom in one folder, with
train.py, broken.py and examples/ in it. Python runs on a machine with two simulated devices, unless it calls
locus.simulate() itself. In sh, a line is `locus …`, `pytest …` or `python FILE …`, with variables before it.
LOCUS_UPDATE_DOCS=1 in the environment writes transcripts anew.
"""

import ast
import json
import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from docs_blocks import FINDINGS, PAGES, ROOT, blocks

DEADLINE = 120.0
LIMIT_OF_EXEMPTIONS = 9
"""Blocks that are not run, all together. Each says why; a new one needs a better reason than this number."""
HAS_TRANSCRIPTS = metadata.version("torch").startswith("2.13.") and sys.version_info >= (3, 11)
"""They show lines of PyTorch 2.13, with carets."""


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path):
    """Where blocks run: the programs they speak of are there."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "examples" / "train_two_gpus.py", tmp_path / "train.py")
    shutil.copy(ROOT / "examples" / "broken_training.py", tmp_path / "broken.py")
    shutil.copy(ROOT / "examples" / "first_check.py", tmp_path / "first_check.py")
    return tmp_path


def run_python(program, text, folder):
    simulate = None if "locus.simulate(" in text else 2
    path = folder / "snippet.py"
    path.write_text(text)
    return program.run(path, simulate=simulate, cwd=folder, deadline=DEADLINE)


def run_command(program, line, folder):
    words = shlex.split(line, comments=True)
    env = {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, _, env[name] = words.pop(0).partition("=")
    if words[0] == "locus":
        return program.call("locus.commands.cli:main", words[1:], env=env, cwd=folder, deadline=DEADLINE)
    if words[0] == "pytest":
        given = ["-p", "no:cacheprovider", *words[1:]]
        return program.call("pytest:main", given, env=env, cwd=folder, deadline=DEADLINE)
    assert words[0] == "python", f"only locus, pytest and python are run: {line}"
    from locus.process.simulation import options_from_environment

    options = options_from_environment(env)
    machine = options and {"devices": options.devices, "memory": options.memory_bytes, "rng": options.rng}
    return program.run(folder / words[1], *words[2:], simulate=machine, env=env, cwd=folder, deadline=DEADLINE)


def run_block(program, block, folder):
    expected = int(block.detail or 0)
    if block.language == "python":
        result = run_python(program, block.text, folder)
        assert result.code == expected, f"{block}\n{block.text}\n{result.describe()}"
        return
    assert block.language == "sh", f"{block}: {block.language} can't be run"
    lines = [line for line in block.text.replace("\\\n", " ").splitlines() if shlex.split(line, comments=True)]
    for line in lines:
        result = run_command(program, line, folder)
        assert result.code == (expected if line is lines[-1] else 0), f"{block}: {line}\n{result.describe()}"


_transcripts = {}


def run_for_transcript(program, command, folder):
    """A command whose output is shown in parts runs once, as long as no file changes."""
    files = tuple((path, path.read_text()) for path in sorted(folder.glob("*.py")))
    key = (command.strip(), files)
    if key not in _transcripts:
        _transcripts[key] = run_command(program, command, folder)
    return _transcripts[key]


def transcript(program, block, folder):
    """The block as it should be."""
    command, _, codes = block.detail.partition("|")
    result = run_for_transcript(program, command, folder)
    # The runner's own handler stands around a program here, and nowhere else.
    report = re.sub(r"\n   = note: [^=]*?forkrunner\.py[^=]*(?=\n   =)", "", result.stderr)
    shown = [f"$ {command.strip()}", *result.stdout.splitlines()]
    if not codes:
        return "\n".join([*shown, *report.splitlines()]) + "\n"
    parts = report.rstrip("\n").split("\n\n")
    if codes.split()[0] == "only":
        return "\n\n".join(p for p in parts if any(f"[{code}]" in p.splitlines()[0] for code in codes.split())) + "\n"
    for part in parts[:-1]:
        if any(f"[{code}]" in part.splitlines()[0] for code in codes.split()):
            shown += [*part.splitlines(), ""]
        elif shown[-2:] != ["…", ""]:
            shown += ["…", ""]
    return "\n".join([*shown, *parts[-1].splitlines()]) + "\n"


def without_time(text):
    """Words only: how long it took moves the ends of lines, too."""
    return re.sub(r"\d+\.\d+ s\b", "… s", " ".join(text.split()))


def compare_transcript(program, block, folder):
    actual = transcript(program, block, folder)
    if os.environ.get("LOCUS_UPDATE_DOCS") and without_time(actual) != without_time(block.text):
        text = block.page.read_text(encoding="utf-8")
        mark = f"<!-- transcript: {block.detail} -->\n```{block.language}\n"
        assert text.count(mark + block.text) == 1, f"{block}: this transcript stands there twice"
        block.page.write_text(text.replace(mark + block.text, mark + actual), encoding="utf-8")
    elif HAS_TRANSCRIPTS:
        words = "LOCUS_UPDATE_DOCS=1 writes the transcript anew"
        assert without_time(actual) == without_time(block.text), f"{block}: {words}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.mark != "no run" for b in blocks(p))], ids=name_of)
def test_blocks(program, folder, page):
    for block in blocks(page):
        if block.mark == "file":
            path = folder / block.detail
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.mark == "run":
            run_block(program, block, folder)
        elif block.mark == "transcript":
            compare_transcript(program, block, folder)


def test_every_block_is_run_or_says_why():
    exempt = []
    for block in (block for page in PAGES for block in blocks(page)):
        assert block.mark, f"{block}: a block has no mark; docs_blocks.py says which there are"
        if block.mark == "no run":
            assert len(block.detail.split()) >= 3, f"{block}: why is it not run?"
            exempt.append(block)
    assert len(exempt) <= LIMIT_OF_EXEMPTIONS, "not run: " + ", ".join(f"{b} ({b.detail})" for b in exempt)


WITHOUT_RANKS = [page for page in FINDINGS if "torch.distributed" not in page.read_text()]


@pytest.mark.parametrize("page", WITHOUT_RANKS, ids=lambda page: page.stem)
def test_the_program_of_a_findings_page(program, tmp_path, page):
    """It has the finding that the page is about, and no other. Those with ranks: tests/dist."""
    (tmp_path / "page.py").write_text(blocks(page)[0].text)
    result = program.call(
        "locus.commands.cli:main", ["check", "--json", "report.json", "page.py"], cwd=tmp_path, deadline=DEADLINE
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert [finding["code"] for finding in report["findings"]] == [page.stem], result.describe()


@pytest.mark.parametrize("page", FINDINGS, ids=lambda p: p.stem)
def test_the_fixes_of_a_findings_page_are_python(page):
    program, *fixes = blocks(page)
    assert program.language == "python" and len(fixes) >= 3
    for block in fixes:
        text = "".join(f"    {line}\n" for line in block.text.splitlines())
        ast.parse(f"def _():\n{text}" if block.language == "python" else "", filename=str(block))


def test_what_make_is_asked_for_is_there():
    rules = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = {word for p in PAGES for b in blocks(p) for word in re.findall(r"^make (\S+)", b.text, re.M)}
    assert asked and asked <= rules, asked - rules


def test_what_is_copied_into_ci():
    """Workflows, pipelines and hooks: the command line takes their `locus` commands; action and hooks are there."""
    from locus.commands.cli import _build_parser

    def taken(command):
        assert command[:2] == ["locus", "check"]
        return _build_parser().parse_args(command[1:])

    files = {b.detail: yaml.safe_load(b.text) for page in PAGES for b in blocks(page) if b.language == "yaml"}
    [job] = files.pop(".github/workflows/placement.yml")["jobs"].values()
    [given] = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("OWNER/locus@")]
    assert set(given) <= set(yaml.safe_load((ROOT / "action.yml").read_text())["inputs"])
    taken(["locus", "check", *shlex.split(given["options"]), *shlex.split(given["program"])])

    job = files.pop(".gitlab-ci.yml")["placement"]
    [command] = [shlex.split(line) for line in job["script"] if line.startswith("locus")]
    assert taken(command).gitlab == job["artifacts"]["reports"]["codequality"]

    [repository] = files.pop(".pre-commit-config.yaml")["repos"]
    entries = {hook["id"]: hook["entry"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    for hook in repository["hooks"]:
        taken(shlex.split(entries[hook["id"]]) + hook["args"])
    assert not files, "a YAML block that no test looks at"


def test_the_settings(tmp_path):
    """Every [tool.locus] table of the documentation is one that Locus takes."""
    from locus.process import settings

    tables = [b for page in PAGES for b in blocks(page) if b.language == "toml" and "[tool.locus" in b.text]
    assert tables
    for block in tables:
        (tmp_path / "pyproject.toml").write_text(block.text)
        assert settings.find(tmp_path).file, str(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} links to {target}, which is not there"
        if anchor and other.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, f"{page.name} links to {target}#{anchor}, which is no title there"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs") and page.name != "README.md":
            assert f"({page.relative_to(ROOT / 'docs').as_posix()})" in index, f"{page.name} is not in docs/README.md"


def test_the_last_code_is_named():
    last = max(path.stem for path in (ROOT / "docs" / "findings").glob("LOC*.md"))
    named = [code for page in PAGES for code in re.findall(r"LOC001 to (LOC\d+)", page.read_text(encoding="utf-8"))]
    assert named and set(named) == {last}


def test_paths_and_options_that_are_named_exist():
    """`locus/bridge/door/door.cc` and the like in the text; what a shell sees is tested above."""
    for page in PAGES:
        declared = {block.detail for block in blocks(page) if block.mark == "file"}
        named = r"`((?:locus|python|tests|tools|docs|examples|cmake|bench)/[\w./-]*\w)`"
        for path in re.findall(named, page.read_text()):
            known = path in declared or (ROOT / path).exists()
            assert known, f"{page.name} speaks of {path}, which is not there"
