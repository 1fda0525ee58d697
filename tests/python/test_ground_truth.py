"""python -m locus.ground_truth: takes tables, goes on behind cases that die, compares, and refuses what is no table."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from locus.ground_truth import table, taking
from locus.ground_truth.__main__ import main

FAKE = (sys.executable, str(Path(__file__).parent / "fake_ground_truth_worker.py"))


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(taking, "WORKER", FAKE)
    monkeypatch.setattr(taking, "CASE_SECONDS", 0.5)


def rows_by_name(path):
    rows = {}
    for row in table.read(str(path)).rows.values():
        rows.setdefault(row.key.name, []).append(row.said.outcome)
    return rows


@pytest.mark.slow
def test_takes_a_table_on_simulated_devices_and_compares_it(tmp_path, capsys):
    pytest.importorskip("setuptools.command", reason="PyTorch's databases need setuptools")
    path = tmp_path / "table.json.gz"
    only = ["--only", "lerp", "--only", "nn.Linear", "--only", "SGD"]
    assert main(["--simulated", *only, "--processes", "1", "--out", str(path)]) == 0
    assert "refused" in capsys.readouterr().out
    taken = table.read(str(path))
    assert taken.about["device"] == "simulated" and not list(tmp_path.glob("*.journal"))
    assert {key.kind for key in taken.rows} >= {"made", "call", "inplace", "out", "backward", "module", "optimizer"}
    assert {key.dtype for key in taken.rows} >= {"float32", "bfloat16", "complex64"}
    said = {row.said for key, row in taken.rows.items() if key.kind == "module" and key.moved == "inputs"}
    words = "Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors"
    assert (
        table.Said("RuntimeError", f"{words} on cuda:0 (when checking argument in method wrapper_CUDA_addmm)") in said
    )
    assert main(["--compare", str(path), "--words", "--only", "nn.Linear", "--processes", "1"]) == 0
    counted = capsys.readouterr().out.splitlines()[-1].split()
    assert counted[1] == counted[2] == counted[3] != "0" and counted[4] == "0"


def test_goes_on_behind_cases_that_end_poison_or_hang(fake, tmp_path, capsys):
    path = tmp_path / "table.json"
    assert main(["--simulated", "--processes", "2", "--out", str(path)]) == 0
    rows = rows_by_name(path)
    assert rows["good"] == ["ok"] * 4
    assert rows["dies"] == ["ok", "Ended", "ok", "ok"]
    assert rows["hangs"] == ["ok", "Stopped", "ok", "ok"]
    assert rows["poisons"] == ["ok", "AcceleratorError", "ok", "ok"]
    said = capsys.readouterr().err
    assert "no samples: call unmade" in said and "SIGSEGV" in said


def test_the_same_command_goes_on_where_time_was_up(fake, tmp_path, capsys, monkeypatch):
    path = tmp_path / "table.json"
    command = ["--simulated", "--only", "good", "--only", "slow", "--processes", "1", "--out", str(path)]
    monkeypatch.setattr(taking, "CASE_SECONDS", 5)
    monkeypatch.setenv("FAKE_SLOW", "1")
    assert main([*command, "--limit", "1"]) == 2
    assert not path.exists() and "1 entries were not reached" in capsys.readouterr().err
    journal = Path(f"{path}.journal")
    with journal.open("a") as file:
        file.write('{"row": [["call", "go')  # the line that was being written when the process was killed
    assert main(["--simulated", "--only", "good", "--out", str(path)]) == 2
    assert "--fresh" in capsys.readouterr().err
    assert journal.exists()
    monkeypatch.delenv("FAKE_SLOW")
    assert main(command) == 0
    assert rows_by_name(path) == {"good": ["ok"] * 4, "slow": ["ok"] * 4}
    assert not journal.exists()


def a_table(path, **changed):
    rows = {}
    for number in range(5):
        key = table.Key("call", "add" if number < 4 else "mul", "", "float32", number, 0, "this")
        said = table.Said("RuntimeError", "Expected") if number else table.Said("ok", "cuda:0")
        rows[key] = table.Row(key, "2/2", changed.get(f"said{number}", said))
    table.write(table.Table({"torch": "2.11", "device": "a card"}, rows), str(path))
    return str(path)


def test_compares_two_tables(tmp_path, capsys):
    one, same = a_table(tmp_path / "one.json"), a_table(tmp_path / "same.json.gz")
    assert main(["--compare", one, same]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["call", "5", "5", "5", "0", "4", "of", "4"]
    other = a_table(tmp_path / "other.json", said1=table.Said("ok", "cpu"), said2=table.Said("RuntimeError", "Other"))
    assert main(["--compare", one, other]) == 1
    said = capsys.readouterr().out
    assert "add: another verdict or device in 1 case" in said and "mul" not in said and "Other" not in said
    assert said.splitlines()[-1].split() == ["call", "5", "5", "4", "1", "2", "of", "3"]
    words = a_table(tmp_path / "words.json", said2=table.Said("RuntimeError", "Other"))
    assert main(["--compare", one, words]) == 0
    assert main(["--compare", one, words, "--words"]) == 1
    assert "add: other words in 1 case" in capsys.readouterr().out


def damaged(tmp_path):
    whole = a_table(tmp_path / "whole.json.gz")
    text = gzip.decompress(Path(whole).read_bytes()).decode()
    document = json.loads(text)
    later = json.dumps({**document, "locus_ground_truth": 2}).encode()
    wrong = json.dumps({**document, "samples": [["call", "add", "", "float32", 0, "2", [[0, "this", 99]]]]}).encode()
    return {
        "cut.json.gz": (Path(whole).read_bytes()[:-40], "damaged or cut off"),
        "cut.json": (text[:300].encode(), "damaged or cut off"),
        "list.json": (b"[1, 2]", "no table of ground truth"),
        "text.json": (b"operator\tdevice\n", "no table of ground truth"),
        "empty.json": (b"", "no table of ground truth"),
        "bytes.json": (b"\xff\xfe\x00\x01", "no table of ground truth"),
        "report.json": (b'{"version": 1, "findings": []}', "no table of ground truth"),
        "later.json": (later, "has version 2; this Locus reads version 1"),
        "wrong.json": (wrong, "damaged (ValueError: there is no outcome 99)"),
    }


def test_refuses_what_is_no_table(tmp_path, capsys):
    for name, (data, words) in damaged(tmp_path).items():
        path = tmp_path / name
        path.write_bytes(data)
        assert main(["--compare", str(path)]) == 2, name
        said = capsys.readouterr().err
        assert said.startswith(f"locus: error: {path}: ") and words in said and len(said.splitlines()) == 1, said


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--compare", "missing.json"], "missing.json: there is no such file"),
        (["--compare", "{folder}"], "can't be read"),
        (["--out", "table.tsv"], ".json or .json.gz"),
        (["--out", "nowhere/table.json"], "a folder that exists"),
        (["--out", "t.json", "--dtypes", "float7"], "'float7' is not known"),
        (["--out", "t.json", "--limit", "soon"], "--limit soon"),
        (["--out", "t.json", "--limit", "0"], "--limit 0"),
        (["--out", "t.json", "--limit", "nan"], "--limit nan"),
        (["--out", "t.json", "--processes", "0"], "--processes 0"),
        (["--compare", "{table}", "--only", "sub"], "no case of --only"),
    ],
)
def test_refuses_bad_input(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [one.format(folder=tmp_path, table=a_table(tmp_path / "a.json")) for one in arguments]
    assert main(given) == 2
    said = capsys.readouterr().err
    assert said.startswith("locus: error: ") and words in said, said
    assert not Path("t.json").exists()


@pytest.mark.parametrize("arguments", [[], ["--out", "a.json", "--compare", "b"], ["--compare", "a", "b", "c"], ["-x"]])
def test_refuses_other_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and "--help" in capsys.readouterr().err


def test_says_what_a_machine_lacks(fake, tmp_path, capsys):
    assert main(["--out", str(tmp_path / "t.json"), "--dtypes", "float64"]) == 2
    assert capsys.readouterr().err == "locus: error: no device here\n"
    assert main(["--simulated", "--out", str(tmp_path / "t.json"), "--only", "goods"]) == 2
    assert "Did you mean good?" in capsys.readouterr().err
    assert main(["--compare", a_table(tmp_path / "a.json")]) == 2
    assert "none of its 5 cases is met here" in capsys.readouterr().err
