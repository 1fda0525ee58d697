"""Notebooks: `locus check|run|fix notebook.ipynb`, and the extension of IPython in a kernel."""

import json
import re
from pathlib import Path

import pytest
from locus.process import notebooks

from locus import markup

DEADLINE = 180
CELLS = [
    "# A training, as people write it",
    "%matplotlib inline\nimport torch\nfrom torch import nn",
    "device = torch.device('cuda')\ntorch.manual_seed(0);",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 2)\n"
    "        self.scale = torch.ones(2)\n\n    def forward(self, x):\n        return self.fc(x) * self.scale",
    "model = Net().to(device)",
    "x = torch.randn(8, 4)\ny = torch.randint(0, 2, (8,), device=device)",
    "out = model(x)\nprint(out.shape)",
    "weight = torch.tensor([1.0, 2.0])\nloss = nn.functional.cross_entropy(out, y, weight=weight)",
    "loss.backward()\nprint(loss.item() > 0)",
    "mask = torch.arange(8) % 2\nprint((out.sum(1) * mask).sum().item() != 0)",
    "%%time\nprint('done')",
]
"""Ten cells with code, four mistakes: in cells 3, 5, 7 and 9."""


def notebook(path, sources, first_is_text=True):
    cells = []
    for number, source in enumerate(sources):
        lines = source.splitlines(keepends=True)
        if number == 0 and first_is_text:
            cells.append({"cell_type": "markdown", "id": "text", "metadata": {}, "source": lines})
            continue
        outputs = [{"name": "stdout", "output_type": "stream", "text": [f"what cell {number} printed\n"]}]
        cells.append(
            {"cell_type": "code", "execution_count": number, "id": f"c{number}", "metadata": {}, "outputs": outputs,
             "source": lines}
        )  # fmt: skip
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(book, indent=1) + "\n")
    return path


@pytest.fixture
def locus(program, tmp_path):
    def call(*words):
        return program.call("locus.commands.cli:main", list(words), cwd=tmp_path, deadline=DEADLINE)

    return call


def test_findings_stand_in_their_cells(locus, tmp_path):
    notebook(tmp_path / "train.ipynb", CELLS)
    result = locus("check", "--json", "report.json", "train.ipynb")
    assert result.code == 1 and result.stdout == "torch.Size([8, 2])\nTrue\nTrue\ndone\n", result.describe()
    report = json.loads((tmp_path / "report.json").read_text())
    causes = {(found["cause"]["file"].rpartition("/")[2], found["cause"]["line"]) for found in report["findings"]}
    assert causes == {
        ("train.ipynb:cell 3", 5), ("train.ipynb:cell 5", 1), ("train.ipynb:cell 7", 1), ("train.ipynb:cell 9", 1),
    }  # fmt: skip
    assert " --> train.ipynb:cell 7:2:8\n" in result.stderr and "made by tensor() at cell 7:1" in result.stderr
    assert "%matplotlib inline" in " ".join(result.stderr.split())
    assert "locus fix --apply train.ipynb" in " ".join(result.stderr.split())
    assert ".py" not in result.stderr.replace("torch/nn/", "").replace("functional.py", "").replace("linear.py", "")


def test_one_command_fixes_them_and_outputs_stay(locus, tmp_path):
    pytest.importorskip("nbformat")
    path = notebook(tmp_path / "train.ipynb", CELLS)
    before = json.loads(path.read_text())
    result = locus("fix", "--apply", "train.ipynb")
    assert result.code == 0 and "4 findings, 4 fixed by verified edits" in result.stderr, result.describe()
    assert "+++ b/train.ipynb:cell 5\n" in result.stderr and "locus: wrote train.ipynb; as it was" in result.stderr
    after = json.loads(path.read_text())
    changed = [number for number, (a, b) in enumerate(zip(before["cells"], after["cells"])) if a != b]
    assert changed == [3, 5, 7, 9]
    for cell in (*before["cells"], *after["cells"]):
        cell.pop("source")
    assert before == after, "only sources change"
    assert json.loads((tmp_path / "train.ipynb.orig").read_text())["cells"][5]["source"][0] == "x = torch.randn(8, 4)\n"
    assert locus("check", "train.ipynb").code == 0


def test_run_runs_it(locus, tmp_path):
    notebook(tmp_path / "a.ipynb", ["import torch", "display(torch.ones(2, device='cuda').sum().item())"], False)
    result = locus("run", "a.ipynb")
    assert (result.code, result.stdout) == (0, "2.0\n"), result.describe()
    assert locus("check", "a.ipynb").code == 0


@pytest.mark.parametrize(
    "text, said",
    [
        ("{}", "is not a notebook of version 4"),
        ("[1]", "is not a notebook of version 4"),
        ('{"cells": 3}', "is not a notebook of version 4"),
        ('{"cells": ["x = 1"]}', "is not a notebook of version 4"),
        ("nothing", "is not a notebook: it is not JSON"),
        ("caf\xe9", "is not a notebook: it is not JSON"),
        ('{"cells": [], "metadata": {"kernelspec": {"language": "julia"}}}', "a notebook for julia"),
    ],
)
def test_what_is_no_notebook(locus, tmp_path, text, said):
    (tmp_path / "x.ipynb").write_text(text, encoding="latin-1")
    result = locus("check", "x.ipynb")
    assert result.code == 2 and said in result.stderr and result.stderr.count("\n") == 1


ERRORS = [
    ("def f(x):\n    return 1 / x\n", "y = 1\nf(0)", ['cell 2", line 2, in <module>', 'cell 1", line 2, in f']),
    ("x = 1", "y = (\n", ['cell 2", line 1']),
]


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("first, second, places", ERRORS)
def test_a_traceback_names_the_cells(locus, tmp_path, command, first, second, places):
    notebook(tmp_path / "a.ipynb", [first, second], False)
    result = locus(command, "a.ipynb")
    assert result.code == 1 and "a.ipynb.py" not in result.stderr, result.describe()
    assert all(f'  File "a.ipynb:{place}' in result.stderr for place in places), result.describe()


def test_what_is_asked_of_ipython_is_left_out(locus, tmp_path):
    cells = [
        "get_ipython().run_line_magic('matplotlib', 'inline')\nfor _ in range(2):\n    get_ipython().system('ls')",
        "import torch\nprint(get_ipython().getoutput('ls'), torch.ones(1, device='cuda').item())",
    ]
    notebook(tmp_path / "a.ipynb", cells, False)
    result = locus("check", "--json", "report.json", "a.ipynb")
    assert result.code == 0 and result.stdout == "[] 1.0\n", result.describe()
    notes = json.loads((tmp_path / "report.json").read_text())["notes"]
    assert notes == [
        "left out of the notebook: cell 1: get_ipython().run_line_magic('matplotlib', "
        "'inline'); cell 1: get_ipython().system('ls'); cell 2: get_ipython().getoutput('ls')"
    ]


def test_ranks_are_refused(locus, tmp_path):
    notebook(tmp_path / "a.ipynb", ["import torch"], False)
    assert "--nproc can't be had with it" in locus("check", "--nproc", "2", "a.ipynb").stderr


@pytest.mark.parametrize(
    "cell, code, left_out",
    [
        ("x = 1", "x = 1", []),
        ("%matplotlib inline\nx = 5 % 3", "pass  # %matplotlib inline\nx = 5 % 3", ["%matplotlib inline"]),
        ("if a:\n    !pip install x\ny", "if a:\n    pass  # !pip install x\ny", ["!pip install x"]),
        ("%time y = f(x)", "y = f(x)", []),
        ("%%time\nf()", "# %%time\nf()", []),
        ("%%bash\nls", "# %%bash\n# ls", ["%%bash …"]),
        ("torch.ones?", "pass  # torch.ones?", []),
        ("text = '''\n%d\n!\n'''", "text = '''\n%d\n!\n'''", []),
    ],
)
def test_what_only_ipython_runs_is_left_out(cell, code, left_out):
    assert notebooks.python_of(cell) == (code, left_out)


def test_an_edit_goes_into_its_cell(tmp_path):
    path = notebook(tmp_path / "a.ipynb", ["a = 1\nb = 2", "%time c = 3", "d = 4"], False)
    book = notebooks.Notebook(str(path))
    try:
        assert book.new_texts(book.code.encode()) == {}
        new = book.code.replace("b = 2", "b = 2\nb2 = 3").replace("d = 4", "d = 5")
        assert book.new_texts(new.encode()) == {1: "a = 1\nb = 2\nb2 = 3", 3: "d = 5"}
        assert book.new_texts(("first = 0\n" + book.code).encode()) == {1: "first = 0\na = 1\nb = 2"}
    finally:
        book.close()


def test_html_is_escaped():
    assert markup.colored("\x1b[1;31m<b>\x1b[0m & x").count("&lt;b&gt;</span> &amp; x") == 1
    assert "<script>" not in markup.table(("a",), [("<script>",)], "<script>")


def test_the_example_is_this_notebook():
    book = json.loads((Path(__file__).parents[2] / "examples" / "train.ipynb").read_text())
    assert ["".join(cell["source"]) for cell in book["cells"]] == CELLS


KERNEL = [
    "%load_ext locus\n%locus devices 2",
    "import torch\nmodel = torch.nn.Linear(3, 2).to('cuda')",
    "%%locus\nx = torch.ones(1, 3)\nprint(model(x).shape)",
    "%%locus\nprint(model(x.cuda()).shape)",
    "%locus where model",
    "model(x)",
    "import locus\nlocus.guard()\nmodel(x)",
    "locus.where(model)",
    "locus.history(model.weight)",
    "with locus.ledger() as ledger:\n    x.cuda()\nledger",
    "%locus devices 4",
    "%locus",
    "%%locus\nraise ValueError",
]


@pytest.mark.slow
def test_a_checked_cell_in_a_kernel(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(notebook(tmp_path / "k.ipynb", KERNEL, False), as_version=4)
    nbclient.NotebookClient(book, timeout=DEADLINE, kernel_name="python3", allow_errors=True).execute()
    outputs = [cell["outputs"] for cell in book.cells]
    text = ["".join(str(out.get("text", "")) for out in each) for each in outputs]
    assert text[0] == "locus: 2 simulated CUDA devices\n"
    assert text[2] == "torch.Size([1, 2])\n"
    shown = "".join(out["data"]["text/html"] for out in outputs[2] if "data" in out)
    assert "LOC004" in shown and "Cell In[3]:2" in shown and "torch.ones(1, 3" in shown, shown
    assert text[3].endswith("locus: no placement mistakes\n")
    assert "on cuda:0" in outputs[4][0]["data"]["text/html"]
    assert outputs[5][0]["ename"] == "RuntimeError"  # unchecked
    guarded = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(outputs[6][0]["traceback"]))
    assert "error[LOC004]" in guarded and "created by ones() at Cell In[3]:2" in " ".join(guarded.split()), guarded
    for shown_once in outputs[7], outputs[8]:  # by the call, which is the cell's value, too
        (out,) = shown_once
        assert "Cell In[2]:2" in out["data"]["text/html"] and "Cell In[2]:2" in out["data"]["text/plain"], out
    assert "Cell In[10]:2  cpu -&gt; cuda:0" in outputs[9][0]["data"]["text/html"]
    assert "restart the kernel" in text[10] and "%locus alone says nothing" in text[11]
    raised = next(out["traceback"] for out in outputs[12] if "traceback" in out)
    assert "Cell In[13], line 2" in re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(raised)), raised
    plain = "".join(out["data"].get("text/plain", "") for out in outputs[2] if "data" in out)
    assert "Cell In[3]:2" in plain and "\x1b" not in plain
