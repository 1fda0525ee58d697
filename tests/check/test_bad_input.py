"""Programs that are hard to explain: sources that are gone, changed or strange, and very much of anything. No crash, no
garbage; what is known is said."""

import subprocess
import sys
import textwrap
import zipfile

import pytest
from checker import LOCUS, check, check_source

MISTAKE = "a = torch.ones(3, device='cuda')\na + torch.ones(3)\n"


def only(checked):
    assert checked.result.code == 1 and not checked.result.timed_out, checked.result.describe()
    assert not checked.report["notes"], checked.report["notes"]
    (finding,) = checked.findings
    return finding


def test_a_source_that_changed_since_it_was_imported(program):
    """The line on disk is another one now: it must not be shown, nor edited."""
    finding = only(
        check_source(
            program,
            """\
            import pathlib, sys, torch
            path = pathlib.Path(__file__).with_name("helper.py")
            path.write_text("def add(a, b):\\n    return a + b\\n")
            sys.path.insert(0, str(path.parent))
            import helper
            path.write_text("def add(a, b):\\n    # a new line\\n    return 'something else'\\n" * 3)
            helper.add(torch.ones(3, device="cuda"), torch.ones(3))
            """.replace("            ", ""),
        )
    )
    assert finding["uses"][0]["line"] == 2 and finding["uses"][0]["file"].endswith("helper.py")
    assert finding["uses"][0]["text"] in ("", "    return a + b")
    assert all("new line" not in str(fix) and "something" not in str(fix) for fix in finding["fixes"])


def test_code_without_source(program):
    finding = only(check_source(program, f"import torch\nexec({MISTAKE!r})\n"))
    assert (finding["uses"][0]["file"], finding["uses"][0]["line"]) == ("<string>", 2)
    assert finding["uses"][0]["text"] == "" and not finding["fixes"]


@pytest.mark.parametrize("file", ["<ipython-input-3-5c1fda19bb7a>", "/tmp/ipykernel_4242/1234567.py"])
def test_a_notebook_cell(program, file):
    """A cell has no file, but linecache knows its lines."""
    finding = only(
        check_source(
            program,
            f"import linecache, torch\ncell = {MISTAKE!r}\n"
            f"linecache.cache[{file!r}] = (len(cell), None, cell.splitlines(True), {file!r})\n"
            f"exec(compile(cell, {file!r}, 'exec'), {{'torch': torch, '__name__': '__main__'}})\n",
        )
    )
    use = finding["uses"][0]
    assert (use["file"], use["line"], use["text"]) == (file, 2, "a + torch.ones(3)")
    assert finding["culprit"]["expression"] == "torch.ones(3)"


def test_a_module_in_a_zip_file(program, tmp_path):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as file:
        file.writestr("inside.py", "def add(a, b):\n    return a + b\n")
    path = tmp_path / "program.py"
    path.write_text(
        "import sys, torch\nsys.path.insert(0, __file__.replace('program.py', 'packed.zip'))\nimport inside\n"
        "inside.add(torch.ones(3, device='cuda'), torch.ones(3))\n"
    )
    finding = only(check(program, path))
    assert finding["uses"][0]["text"] == "    return a + b" and finding["uses"][0]["line"] == 2
    assert finding["cause"]["line"] == 4 and finding["cause"]["file"] == str(path)


def test_a_file_that_is_not_utf8(program, tmp_path):
    path = tmp_path / "program.py"
    text = "# -*- coding: latin-1 -*-\nimport torch\ncaf\xe9 = torch.ones(3, device='cuda')\ncaf\xe9 + torch.ones(3)\n"
    path.write_bytes(text.encode("latin-1"))
    finding = only(check(program, path))
    assert finding["uses"][0]["text"] == "caf\xe9 + torch.ones(3)"
    assert [operand["expression"] for operand in finding["operands"]] == ["caf\xe9", "torch.ones(3)"]


def test_names_that_are_no_unicode(program, tmp_path):
    """A folder with a byte that no encoding knows: paths are still shown, and the report is valid JSON."""
    import os

    folder = os.fsencode(tmp_path) + b"/sm\xf8r"
    os.mkdir(folder)
    with open(folder + b"/program.py", "w") as file:
        file.write("import torch\n" + MISTAKE)
    finding = only(check(program, os.fsdecode(folder + b"/program.py")))
    assert finding["uses"][0]["line"] == 3


def test_a_very_long_line(program):
    text = f"import torch\na = torch.ones(3, device='cuda'); b = [{'0, ' * 60_000}]; a + torch.ones(3)\n"
    finding = only(check_source(program, text))
    assert finding["culprit"]["expression"] == "torch.ones(3)"
    result = locus_text(program, text)
    assert max(map(len, result.splitlines())) <= 80


def test_deep_recursion(program):
    text = (
        "import sys, torch\nsys.setrecursionlimit(3000)\n"
        "def dive(n, a):\n    return dive(n - 1, a) if n else a + torch.ones(3)\n"
        "print(dive(1000, torch.ones(3, device='cuda')).device)\n"
    )
    checked = check_source(program, text)
    assert only(checked)["uses"][0]["line"] == 4 and checked.stdout == "cuda:0\n"


def test_near_the_recursion_limit(program):
    """Explaining takes frames too: where there are none left, the program still gets its result."""
    text = (
        "import sys, torch\na, b = torch.ones(3, device='cuda'), torch.ones(3)\ntorch.ones(1) + 1\n"
        "def dive():\n    try:\n        dive()\n    except RecursionError:\n        pass\n    else:\n        return\n"
        "    for _ in range(1):\n        print((a + b).device)\n"
        "for _ in range(1):\n    dive()\n"
    )
    checked = check_source(program, text)
    assert checked.stdout == "cuda:0\n", checked.result.describe()


def test_huge_and_odd_shapes(program):
    text = """\
import torch
a = torch.ones(1, device="cuda")
for shape in [(0, 1 << 40), (1,) * 60, (1 << 62, 0)]:
    print((torch.empty(shape, device="cuda") + torch.empty(shape)).device)
wide = torch.ones(1).expand(1 << 45)
try:
    for _ in range(1):
        a + wide
except RuntimeError as error:
    print("same device" in str(error))
"""
    checked = check_source(program, text)
    assert checked.stdout == "cuda:0\n" * 3 + "True\n", checked.result.describe()
    shapes = [operand["shape"] for finding in checked.findings for operand in finding["operands"]]
    assert [0, 1 << 40] in shapes


def many(lines):
    return "import torch\na = torch.ones(3, device='cuda')\n" + "a + torch.ones(3)\n" * lines


def test_many_findings(program):
    checked = check_source(program, many(200))
    assert len(checked.findings) == 200


@pytest.mark.slow
def test_thousands_of_findings(program):
    checked = check_source(program, many(3000))
    assert len(checked.findings) == 3000 and checked.result.seconds < 60


@pytest.mark.parametrize(
    "fault",
    [
        "facts.build_case = broken",
        "facts.build_case = lambda raw: object()",
        "names.find = broken",
        "histories.history = broken",
        "edits.operand_edits = broken",
        "places.frames_here = broken",
        "facts.build_case = lambda raw: {'kind': 3, 'operands': 'none'}",
    ],
)
def test_a_fault_of_our_own(program, fault):
    """The mistake is still found, the fault is in the report's notes, the program does not hear of it."""
    text = (
        "import torch\nfrom locus.blame import facts; from locus.fixing import edits; "
        "from locus.program import histories, names, places\n"
        f"def broken(*_):\n    raise ZeroDivisionError('ours')\n{fault}\n"
        + MISTAKE
        + "for _ in range(3):\n    b = a * torch.ones(3)\nprint(b.device)\n"
    )
    checked = check_source(program, text)
    assert checked.stdout == "cuda:0\n" and checked.result.code == 1, checked.result.describe()
    assert [finding["uses"][0]["line"] for finding in checked.findings] == [7, 9]
    assert any("fault inside Locus" in note for note in checked.report["notes"])


def test_a_fault_of_the_reporter_itself(program):
    """Where nothing can be recorded, it is said once and the program goes on."""
    text = (
        "import torch\nfrom locus.watch import reporter\ndef broken(*_):\n    raise ZeroDivisionError('ours')\n"
        "reporter._poor_case = reporter.load_bridge = broken\n" + MISTAKE + "print((a * torch.ones(3)).device)\n"
    )
    checked = check_source(program, text)
    assert checked.stdout == "cuda:0\n"
    assert checked.result.stderr.count("a fault inside Locus") == 1, checked.result.describe()
    assert checked.result.code == 2


def locus_text(program, text):
    """The report in words."""
    with_path = textwrap.dedent(
        """\
        import sys
        from locus.commands.cli import main
        for arguments in [sys.argv[1:]]:
            sys.exit(main(arguments))
        """
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        script = f"{folder}/p.py"
        with open(script, "w") as file:
            file.write(text)
        return program.run_source(with_path, "check", script).stderr


def test_standard_input_and_code(tmp_path):
    """`locus check -c`: the only source is the command line."""
    command = [sys.executable, "-m", "locus", "check", "-c", "import torch\n" + MISTAKE]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1 and "<string>:3" in result.stderr, result.stderr
    assert "3 | a + torch.ones(3)" in result.stderr, "the line is shown"
    assert "fix: <string>:3   a + torch.ones(3, device=" in result.stderr


def test_code_in_code(program, tmp_path):
    """exec() calls its code "<string>", too, as Python calls that of -c: no line of one is shown for the other's."""
    code = f"import torch\n\nexec({MISTAKE!r})\n"
    result = program.run(LOCUS, "check", "-c", code, cwd=tmp_path)
    assert result.code == 1 and "<string>:2" in result.stderr, result.describe()
    assert "2 |" not in result.stderr and "fix:" not in result.stderr
