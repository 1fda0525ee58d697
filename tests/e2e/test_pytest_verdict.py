"""What the pytest plugin says of a whole run: the last line, the JSON report, and refusals that no rule foresaw."""

import json
import re

import pytest
from test_pytest_plugin import run

REFUSAL = "torch.block_diag(torch.ones(2, 2), torch.ones(2, 2, device='cuda'))"
SUITES = {
    "nothing was checked: no test called an operator": "def test_it():\n    pass\n",
    "nothing ran on a device: all its ": "def test_it():\n    assert torch.ones(2).sum() == 2\n",
    "no placement mistakes": "def test_it():\n    assert torch.ones(2, device='cuda').sum() == 2\n",
    "nothing found; 1 test did not pass, and was checked up to there": (
        "def test_it():\n    assert torch.ones(2, device='cuda').sum() == 3\n"
    ),
    "1 finding in 1 test": f"def test_it():\n    {REFUSAL}\n",
    "no placement mistakes ": (
        f"@pytest.mark.xfail(raises=RuntimeError)\ndef test_it():\n    {REFUSAL}\n"
        f"def test_caught():\n    with pytest.raises(RuntimeError):\n        {REFUSAL}\n"
    ),
}


@pytest.mark.parametrize("words", SUITES)
def test_the_last_line(program, tmp_path, words):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("import pytest, torch\n" + SUITES[words])
    result = run(program, tmp_path, "--locus", "--locus-report", "report.json")
    assert f"\nlocus: {words}" in result.stdout, result.describe()
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["program"]["exit"] == result.code
    assert (report["verdict"]["is"] == "findings") == words.startswith("1 finding"), report["verdict"]
    assert ("mistakes" in report["verdict"]["words"]) == ("mistakes" in words), report["verdict"]


@pytest.mark.parametrize("operand, code", [("torch.ones(2)", 1), ("torch.ones(2, device='cuda')", 0)])
def test_a_test_that_ends_the_run(program, tmp_path, operand, code):
    """pytest makes no report of it; what was found in it is told all the same."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        f"import pytest, torch\ndef test_it():\n    torch.ones(2, device='cuda') + {operand}\n"
        "    pytest.exit('enough', 0)\n"
    )
    result = run(program, tmp_path, "--locus")
    assert result.code == code, result.describe()
    assert ("LOC004" in result.stdout) == (code == 1), result.describe()


REFUSE = "torch.block_diag(torch.ones(2, 2, device='cuda'), torch.ones(2, 2))"
MISTAKE = "torch.ones(2, device='cuda') + torch.ones(2)"
RIGHT = "torch.ones(2, device='cuda') + 1"
HEAD = "import os, sys, threading, time, unittest, pytest, torch\n"


def run_suite(program, folder, test, conftest=""):
    (folder / "tests").mkdir()
    (folder / "tests" / "test_it.py").write_text(HEAD + test)
    (folder / "conftest.py").write_text(HEAD + conftest)
    return run(program, folder, "--locus", "--locus-report", "report.json")


def check_told(result, folder, code, found):
    """Told in full, by the last line, by the report and by the exit status; or not at all."""
    said = result.stdout + result.stderr
    assert (result.code, "error[LOC" in said) == ((1, True) if found else (code, False)), result.describe()
    assert (re.search(r"^locus: 1 finding (in 1 test|outside of tests)", said, re.M) is not None) == found, said
    assert not (found and re.search(r"^locus: no(thing was checked| placement)", said, re.M)) or "after the" in said, (
        said
    )
    if (folder / "report.json").exists():
        report = json.loads((folder / "report.json").read_text())
        assert (len(report["findings"]), report["program"]["exit"]) == (int(found), result.code), report


@pytest.mark.parametrize(
    "body, found",
    [
        (f"{MISTAKE}\n    os._exit(0)", True),
        (f"try: {REFUSE}\n    finally: os._exit(0)", True),
        (f"{MISTAKE}\n    os.execv(sys.executable, [sys.executable, '-c', 'pass'])", True),
        (f"{RIGHT}\n    os._exit(0)", False),
        (f"try: {REFUSE}\n    except RuntimeError: os._exit(0)", False),
        (f"{MISTAKE}\ndef test_last():\n    os._exit(0)", True),
    ],
)
def test_a_test_that_ends_the_process(program, tmp_path, body, found):
    """pytest can't say anything any more."""
    result = run_suite(program, tmp_path, f"def test_it():\n    {body}\n")
    check_told(result, tmp_path, 0, found)
    assert ("pytest was ended before its own report" in result.stderr) == found, result.describe()


@pytest.mark.parametrize(
    "test, found",
    [
        (f"def test_it():\n    {MISTAKE}\n    pytest.skip('later')", True),
        (f"def test_it():\n    {RIGHT}\n    pytest.skip('later')", False),
        (f"def test_it():\n    {MISTAKE}\n    raise unittest.SkipTest('later')", True),
        (f"@pytest.fixture\ndef it():\n    {MISTAKE}\n    pytest.skip('later')\ndef test_it(it): pass", True),
        (
            f"@pytest.fixture\ndef it():\n    yield\n    {MISTAKE}\n    pytest.skip('later')\ndef test_it(it): pass",
            True,
        ),
        (f"class TestIt(unittest.TestCase):\n  def test_it(self):\n    {MISTAKE}\n    self.skipTest('later')", True),
        (f"class TestIt(unittest.TestCase):\n  def test_it(self):\n    {RIGHT}\n    self.skipTest('later')", False),
        (f"def test_it():\n    try: {REFUSE}\n    finally: pytest.skip('later')", True),
        (f"def test_it():\n    try: {REFUSE}\n    except RuntimeError: pytest.skip('later')", False),
        (f"def test_it():\n    with pytest.raises(RuntimeError): {REFUSE}\n    pytest.skip('later')", False),
        (f"def test_it():\n    try: {REFUSE}\n    finally: pytest.exit('later', 0)", True),
        (f"class TestIt(unittest.TestCase):\n def test_it(self):\n  try: {REFUSE}\n  finally: self.skipTest('')", True),
        ("def test_it():\n    pytest.skip('')", False),
    ],
)
def test_a_test_that_skips_itself(program, tmp_path, test, found):
    """What was found in it fails it all the same; what an error was under way for is no reason to skip."""
    check_told(run_suite(program, tmp_path, test), tmp_path, 0, found)


def test_a_test_that_skips_itself_and_is_expected_to_fail(program, tmp_path):
    test = f"@pytest.mark.xfail\ndef test_it():\n    {MISTAKE}\n    pytest.skip('later')"
    result = run_suite(program, tmp_path, test)
    assert result.code == 0 and "1 expected failure, 1 cause" in result.stdout, result.describe()


@pytest.mark.parametrize("word, code", [("finally", 2), ("except RuntimeError", 5)])
def test_a_file_that_skips_itself(program, tmp_path, word, code):
    result = run_suite(program, tmp_path, f"try: {REFUSE}\n{word}: pytest.skip('', allow_module_level=True)\n")
    assert result.code == code and ("error[LOC" in result.stdout) == (code == 2), result.describe()
    assert ("locus: 1 finding outside of tests" in result.stdout) == (code == 2), result.describe()


THREAD = (
    "def test_it():\n    def late():\n        time.sleep(0.3)\n        {}\n    threading.Thread(target=late).start()\n"
)
HOOK = "def {}():\n    thread = threading.Thread(target=lambda: {})\n    thread.start()\n    thread.join()\n"


@pytest.mark.parametrize(
    "test, conftest, found",
    [
        ("", HOOK.format("pytest_sessionfinish", MISTAKE), True),
        ("", "@pytest.hookimpl(trylast=True)\n" + HOOK.format("pytest_sessionfinish", MISTAKE), True),
        ("", HOOK.format("pytest_terminal_summary", MISTAKE), True),
        ("", HOOK.format("pytest_unconfigure", MISTAKE), True),
        ("", HOOK.format("pytest_unconfigure", RIGHT), False),
        (THREAD.format(MISTAKE), "", True),
        (THREAD.format(REFUSE), "", True),
        (THREAD.format(RIGHT), "", False),
    ],
)
def test_what_is_found_outside_of_tests(program, tmp_path, test, conftest, found):
    """Also after pytest has said its last word."""
    result = run_suite(program, tmp_path, test or "def test_it(): pass\n", conftest)
    check_told(result, tmp_path, 0, found)
