"""Every form of a report, as the command line writes it: next to the text in one run, from a saved report; and what is
said where that can't be done.
"""

import json
import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
BROKEN = EXAMPLES / "broken_training.py"


def locus(program, *words, **how):
    return program.call("locus.commands.cli:main", [str(word) for word in words], **how)


@pytest.fixture(scope="module")
def checked(program, tmp_path_factory):
    """One check of the broken example, with every file."""
    folder = tmp_path_factory.mktemp("reports")
    files = [word for form in ("json", "html", "sarif") for word in (f"--{form}", folder / f"report.{form}")]
    result = locus(program, "check", *files, BROKEN, cwd=EXAMPLES.parent)
    assert result.code == 1, result.describe()
    return folder, result


def test_files_stand_next_to_the_text(checked):
    folder, result = checked
    assert "epoch 2" in result.stdout and "locus: 5 findings (5 errors)" in result.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "5 findings" in page and "criterion.weight" in page and len(page) < 200_000
    run = json.loads((folder / "report.sarif").read_text(encoding="utf-8"))["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == [
        finding["code"] for finding in json.loads((folder / "report.json").read_text(encoding="utf-8"))["findings"]
    ]
    places = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]}
    assert places == {"examples/broken_training.py"}


def test_sarif_edits_mend_the_program(checked, program, tmp_path):
    """All five replacements together, made as an editor makes them."""
    folder, _ = checked
    lines = BROKEN.read_text(encoding="utf-8").splitlines(keepends=True)
    changes = []
    for result in json.loads((folder / "report.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]:
        changes += result["fixes"][0]["artifactChanges"][0]["replacements"]
    for change in sorted(changes, key=lambda change: -change["deletedRegion"]["startLine"]):
        region = change["deletedRegion"]
        first, last = region["startLine"] - 1, region["endLine"] - 1
        before, after = lines[first][: region["startColumn"] - 1], lines[last][region["endColumn"] - 1 :]
        lines[first : last + 1] = [before + change["insertedContent"]["text"] + after]
    mended = tmp_path / "mended.py"
    mended.write_text("".join(lines), encoding="utf-8")
    result = locus(program, "check", mended)
    assert result.code == 0 and "no placement mistakes" in result.stderr, result.describe()


def test_the_json_has_models_and_memory_over_time(checked):
    folder, _ = checked
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    model = next(model for model in report["models"] if model["class"] == "Classifier")
    rows = {row["name"]: row for row in model["rows"]}
    assert model["rows"][0]["kind"] == "module" and model["rows"][0]["depth"] == 0
    assert rows["scale"]["device"] == "cpu" and rows["scale"]["reached"] is False
    assert {row["device"] for row in model["rows"] if row["kind"] == "parameter"} == {"cuda:0", "cuda:1"}
    for memory in report["memory"].values():
        line = memory["timeline"]
        assert len(line["low"]) == len(line["high"]) == len(line["step"]) > 10
        assert max(line["high"]) == memory["peak"] and memory["capacity"] == 80 << 30
        assert line["step"][-1] == report["program"]["steps"] and line["events"] >= len(line["low"])
        assert all(low <= high for low, high in zip(line["low"], line["high"]))
        of_all = [sum(each) for each in zip(*(row["bytes"] for row in line["by_category"]))]
        assert len(of_all) == len(line["high"]) and "parameters" in {row["category"] for row in line["by_category"]}
        assert all(low <= total <= high for low, total, high in zip(line["low"], of_all, line["high"])), line


def test_a_saved_report_becomes_any_form(checked, program, tmp_path):
    folder, result = checked
    again = locus(program, "report", folder / "report.json", cwd=EXAMPLES.parent)
    assert again.code == 0 and again.stdout == result.stderr.partition("next: ")[0]
    files = ["--html", tmp_path / "a.html", "--sarif", tmp_path / "a.sarif", "-o", tmp_path / "a.json"]
    converted = locus(program, "report", folder / "report.json", "--format", "json", *files, cwd=EXAMPLES.parent)
    assert converted.code == 0 and converted.stdout == "", converted.describe()
    for form in ("html", "sarif", "json"):
        assert (tmp_path / f"a.{form}").read_bytes() == (folder / f"report.{form}").read_bytes(), form


def test_format_replaces_the_text(program, tmp_path):
    code = "import torch; torch.ones(2, device='cuda'); print('hello')"
    result = locus(program, "check", "--format", "sarif", "-c", code)
    assert result.code == 0 and result.stdout == "hello\n" and json.loads(result.stderr)["version"] == "2.1.0"
    result = locus(program, "check", "--format", "html", "-o", tmp_path / "x.html", "-c", code)
    assert result.code == 0 and result.stderr == "" and "No placement mistakes" in (tmp_path / "x.html").read_text()


SAYS = {
    ("check", "--format", "pdf", "-c", "1"): "--format pdf is not known. Use text, concise, json, html, sarif,",
    ("check", "--html", "{folder}", "-c", "1"): "--html {folder} is a folder. Give the name of a file in it.",
    ("check", "--sarif", "{folder}/no/x", "-c", "1"): "there is no folder {folder}/no. Make it first",
    ("check", "--json", "", "-c", "1"): "--json needs the name of a file",
    ("check", "--json", "{folder}/x", "--html", "{folder}/./x", "-c", "1"): "--json and --html both name",
    ("report", "{folder}/none.json"): "can't read the report '{folder}/none.json': No such file or directory",
    ("report", "{folder}"): "{folder} is not a folder of --report-dir: there is no part of a report in it",
    ("report", "{folder}/text"): "{folder}/text is not a report of Locus: it is no JSON",
    ("report", "{folder}/list"): "{folder}/list is not a report of Locus: expected a report, got array",
    ("report", "{folder}/future"): "version: expected 1 to 2, got 7; this report is of another Locus",
    ("report", "{folder}/odd"): "findings[0].count: expected a number, got string",
    ("report", "{folder}/nothing"): '{folder}/nothing is not a report of Locus: there is no "version"',
    ("report", "{folder}/poor"): '{folder}/poor is not a report of Locus: there is no "program"',
    ("report", "{folder}/hollow"): 'findings[0]: there is no "code"',
    ("report", "{folder}/foreign"): 'findings[0].code: "E501" is no code of Locus',
    ("check", "--baseline", "{folder}/hollow", "-c", "1"): 'findings[0]: there is no "code"',
}
PROGRAM = '"program": {"script": "x.py", "ops": 1}'


@pytest.mark.parametrize("words", SAYS, ids=lambda words: " ".join(words))
def test_what_can_not_be_done_is_said_first(program, tmp_path, words):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "list").write_text("[]")
    (tmp_path / "future").write_text('{"version": 7}')
    (tmp_path / "odd").write_text('{"version": 1, "findings": [{"count": "many"}]}')
    (tmp_path / "nothing").write_text("{}")
    (tmp_path / "poor").write_text('{"version": 1, "findings": [{}]}')
    (tmp_path / "hollow").write_text(f'{{"version": 1, "findings": [{{}}], {PROGRAM}}}')
    foreign = '{"code": "E501", "message": "", "cause": {}, "uses": []}'
    (tmp_path / "foreign").write_text(f'{{"version": 1, "findings": [{foreign}], {PROGRAM}}}')
    result = locus(program, *(word.format(folder=tmp_path) for word in words))
    assert result.code == 2 and result.stdout == ""
    assert result.stderr.startswith("locus: error: ") and SAYS[words].format(folder=tmp_path) in result.stderr
    assert result.stderr.count("\n") == 1


def test_what_can_not_be_written_is_not_lost(program, tmp_path):
    """The folder disappears while the program runs: the report is shown, the other file is there, exit code 2."""
    gone, kept = tmp_path / "gone", tmp_path / "kept.sarif"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r})"
    result = locus(program, "check", "-o", gone / "x.txt", "--sarif", kept, "-c", code)
    assert result.code == 2 and f"-o {gone}/x.txt could not be written: No such file or directory" in result.stderr
    assert "nothing was checked" in result.stderr and json.loads(kept.read_text())["version"] == "2.1.0"


MODEL_THAT_IS_GONE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(4, 4).to("cuda")]
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.layers[0](x))

def main():
    net = Net().to("cuda:0")
    print(net(torch.ones(1, 4, device="cuda:0")).shape)

main()
"""


def test_a_model_is_remembered_when_it_is_gone(program, tmp_path):
    (tmp_path / "gone.py").write_text(MODEL_THAT_IS_GONE)
    result = locus(program, "check", "--json", tmp_path / "x.json", tmp_path / "gone.py")
    assert result.code == 0, result.describe()
    models = json.loads((tmp_path / "x.json").read_text())["models"]
    assert [model["class"] for model in models] == ["Net"]
    rows = [(row["depth"], row["name"], row["kind"], row["device"], row["reached"]) for row in models[0]["rows"]]
    assert (2, "weight", "parameter", "cuda:0", True) in rows
    assert (3, "weight", "plain-container", "cuda:0", False) in rows  # in the plain list


def test_looking_keeps_nothing_alive(program):
    code = """
import gc, weakref, torch
net = torch.nn.Linear(4, 4).to("cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.ones(1, 4, device="cuda")).sum().backward()
optimizer.step()
seen = weakref.ref(net)
del net, optimizer
gc.collect()
torch._C._cuda_clearCublasWorkspaces()  # what the library keeps
print(seen(), torch.cuda.memory_allocated())
"""
    result = locus(program, "check", "-c", code)
    assert result.code == 0 and result.stdout == "None 0\n", result.describe()


def test_report_survives_a_reader_that_leaves(checked):
    """`locus report … | head`: no traceback."""
    import subprocess
    import sys

    folder, _ = checked
    command = f"{sys.executable} -m locus report {folder / 'report.json'} --format html | head -c 10"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.stdout == "<!doctype " and done.stderr == ""
