"""What the pytest plugin says of a whole run: the last line, the JSON report, and refusals that no rule foresaw."""

import json

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
