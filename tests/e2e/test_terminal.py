"""The command line as people meet it: what is next, a line for each finding, several programs, misspelt words."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from locus.process import screen

DEADLINE = 120
WRONG = "import torch\nx = torch.ones(3, device='cuda')\nmask = torch.ones(3)\nprint((x * mask).sum().item())\n"
RIGHT = "import torch\nprint(torch.ones(3, device='cuda').sum().item())\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "other.py").write_text("print('nothing of the kind')\n")
    (tmp_path / "test_it.py").write_text(WRONG)
    return tmp_path


@pytest.fixture
def locus(program, folder):
    def call(*words, env=None):
        return program.call("locus.commands.cli:main", list(words), env=env or {}, cwd=folder, deadline=DEADLINE)

    call.folder = folder
    return call


def test_the_last_line_says_what_is_next(locus):
    result = locus("check", "--devices", "1", "wrong.py", "--epochs", "1")
    last = " ".join(result.stderr[result.stderr.index("\nnext: ") :].split())
    assert last == (
        "next: 1 fix: locus fix --apply --devices 1 wrong.py --epochs 1; about LOC004: locus codes LOC004"
    ), result.stderr


def test_nothing_is_next_where_nothing_was_found(locus):
    assert "next:" not in locus("check", "right.py").stderr


def test_code_on_the_command_line_can_not_be_fixed(locus):
    assert "next: about LOC004: locus codes LOC004\n" in locus("check", "-c", WRONG).stderr


def test_a_line_for_each_finding(locus):
    lines = locus("check", "--format", "concise", "wrong.py").stderr.splitlines()
    assert lines[0].startswith("wrong.py:3:8: error[LOC004] `mask`, made by ones()") and lines[0].endswith(" [fix]")
    assert lines[1].startswith("locus: 1 finding (1 error)")


def test_statistics_and_quiet(locus):
    assert (
        locus("check", "-q", "--statistics", "wrong.py").stderr == "1  LOC004  error    default-device  1 with a fix\n"
    )
    assert locus("check", "-q", "right.py").stderr == ""
    assert "contradict" in locus("check", "-q", "-v", "wrong.py").stderr


def test_verbose_is_everything(locus):
    said = locus("check", "-v", "wrong.py").stderr
    assert "= because: " in said and "synchronizations, by count" in said


def test_the_report_on_standard_output(locus):
    result = locus("check", "-q", "--format", "json", "-o", "-", "wrong.py")
    printed, _, report = result.stdout.partition("\n")
    assert printed == "3.0" and json.loads(report)["findings"][0]["code"] == "LOC004" and result.stderr == ""
    refused = locus("check", "--json", "-", "--html", "-", "wrong.py")
    assert refused.code == 2 and "both name standard output" in refused.stderr


def test_color_and_width_when_piped(locus):
    said = locus("check", "wrong.py", env={"FORCE_COLOR": "1", "COLUMNS": "200"}).stderr
    assert "\x1b[1;31merror[LOC004]: \x1b[0m" in said
    assert max(len(line) for line in locus("check", "wrong.py", env={"COLUMNS": "200"}).stderr.splitlines()) > 100
    assert "\x1b" not in locus("check", "wrong.py", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stderr


def test_links(locus, folder):
    said = locus("check", "wrong.py", env={"FORCE_HYPERLINK": "1"}).stderr
    assert f"\x1b]8;;file://{folder}/wrong.py\x1b\\wrong.py:4:8\x1b]8;;\x1b\\" in said
    page = said.split("]8;;file://")[1].split("\x1b")[0]
    assert page.endswith("LOC004.md") and Path(page).exists()


@pytest.mark.parametrize(
    "variables, links",
    [
        ({"VTE_VERSION": "6800"}, True),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"VTE_VERSION": "3800"}, False),
        ({}, False),
    ],
)
def test_which_terminals_know_links(variables, links, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TERM", "VTE", "KITTY", "WT_", "KONSOLE", "DOMTERM", "FORCE", "NO_COLOR")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "isatty", lambda _: True)
    assert screen.look(2).links == links


def test_github_reads_it(locus):
    said = locus("check", "-q", "--format", "github", "wrong.py").stderr
    assert said.startswith("::error file=wrong.py,line=3,endLine=3,col=8,title=LOC004%3A ") and said.count("\n") == 1


def test_every_form_in_one_run(locus, folder):
    locus("check", "--gitlab", "quality.json", "--markdown", "page.md", "--sarif", "run.sarif", "wrong.py")
    issue = json.loads((folder / "quality.json").read_text())[0]
    assert issue["location"] == {"path": "wrong.py", "lines": {"begin": 3}} and issue["severity"] == "major"
    assert (folder / "page.md").read_text().startswith("## Locus: 1 finding (1 error)\n")
    driver = json.loads((folder / "run.sarif").read_text())["runs"][0]["tool"]["driver"]
    assert driver["informationUri"].startswith("https://") and driver["rules"][3]["helpUri"].endswith("/LOC004/")


def test_several_programs_and_one_summary(locus, folder):
    result = locus("check", "--each", "--sarif", "all.sarif", "--gitlab", "-", "wrong.py", "right.py")
    assert result.code == 1
    assert result.stderr.endswith(
        "wrong.py  1 finding (1 error)\nright.py  no placement mistakes\nlocus: 1 finding in 1 of 2 programs\n"
    )
    assert len(json.loads((folder / "all.sarif").read_text())["runs"]) == 2
    assert json.loads(result.stdout[result.stdout.index("[") :])[0]["check_name"] == "LOC004"


@pytest.mark.slow
def test_the_programs_of_a_folder(locus, folder):
    result = locus("check", "-q", ".")
    assert result.code == 1 and "=== ./right.py" in result.stderr and "=== ./wrong.py" in result.stderr
    assert "test_it" not in result.stderr and "other.py" not in result.stderr


@pytest.mark.slow
def test_options_hold_for_each_of_several_programs(locus, folder):
    (folder / "asks.py").write_text(
        "import torch\nprint(torch.cuda.device_count())\nprint(torch.rand(9, device='cuda').sum().item() > 0)\n"
    )
    result = locus("check", "--each", "--devices", "3", "--dry", "--dry-keep", "0", "asks.py", "right.py")
    assert result.stdout.startswith("3\n"), result.describe()
    assert "=== asks.py (1 of 2)\n" in result.stderr and "dry run: " in result.stderr, result.describe()


def test_a_second_script_is_an_argument_of_the_first(locus, folder):
    (folder / "shows.py").write_text("import sys, torch\nprint(sys.argv[1:], torch.ones(1, device='cuda').item())\n")
    assert locus("check", "shows.py", "wrong.py").stdout == "['wrong.py'] 1.0\n"


@pytest.mark.parametrize("others", [["wrong.py"], ["wrong.py", "more"]])
def test_programs_behind_one_that_reads_no_arguments_are_checked_too(locus, folder, others):
    (folder / "more").mkdir()
    (folder / "more" / "third.py").write_text("import torch\nprint(torch.ones(2, device='cuda').sum().item())\n")
    result = locus("check", "right.py", *others)
    assert result.code == 1 and "=== right.py (1 of" in result.stderr, result.describe()
    assert result.stderr.endswith(f"locus: 1 finding in 1 of {len(others) + 1} programs\n"), result.describe()


@pytest.mark.parametrize(
    "text, words",
    [
        ("import torch\nexec(open('settings.py').read())\n", ["wrong.py"]),  # it may run what reads them
        ("import torch\n", ["settings.py"]),  # a configuration
        ("import torch\n", ["wrong.py", "3"]),
        ("import torch\n", ["empty"]),
        ("import torch\n", ["nowhere.py"]),
    ],
)
def test_what_is_no_program_is_an_argument(locus, folder, text, words):
    (folder / "empty").mkdir()
    (folder / "settings.py").write_text("width = 3\n")
    (folder / "takes.py").write_text(
        text + "import settings\nprint(torch.ones(settings.width, device='cuda').sum().item())\n"
    )
    result = locus("check", "takes.py", *words)
    assert result.code == 0 and result.stdout == "3.0\n" and "===" not in result.stderr, result.describe()
    assert locus("check", "--", "right.py", "wrong.py").code == 0


@pytest.mark.parametrize(
    "words, said",
    [
        (["chekc", "train.py"], "chekc is no command. Did you mean `locus check`?"),
        (["wrong.py", "--epochs", "1"], "To check that program: `locus check wrong.py --epochs 1`"),
        (["xyzzy"], "xyzzy is no command. The commands are check, fix, run"),
        (["codes", "LOC999"], "LOC999 is no code. They go from LOC001 to LOC0"),
        (["codes", "3"], "3 is no code. Did you mean LOC003?"),
        (["codes", "loc03"], "loc03 is no code. Did you mean LOC003?"),
        (["codes", "default-devise"], "Did you mean default-device?"),
        (["check", "--devices", "99", "wrong.py"], "--devices 99 is more than Locus simulates. Use at most 64."),
        (["check", "--devices", "-1", "wrong.py"], "is not a number of devices. Use a whole number from 1 to 64."),
        (["run", "--devices", "abc", "wrong.py"], "is not a number of devices. Use a whole number from 0 to 64."),
        (
            ["check", "--memory", "-5GB", "wrong.py"],
            "--memory needs a value; one that begins with a dash is written --memory=VALUE. `locus check --help`",
        ),
        (["check", "-o"], "-o needs a value. `locus check --help`"),
        (["check", "--jsn", "x.json", "wrong.py"], "unrecognized arguments: --jsn. Did you mean --json? `locus"),
        (["--verison"], "unrecognized arguments: --verison. Did you mean --version? `locus --help` shows how."),
        (["report", "wrong.py"], "wrong.py is not a report of Locus: it is no JSON (line 1, column 1)."),
        (["check", "--nope", "wrong.py"], "unrecognized arguments: --nope. `locus check --help` shows how."),
        (["memory", "--strict-memory", "--dry", "wrong.py"], "--strict-memory can't be had here"),
        (["check", "--each", "nowhere.py"], "can't open the program 'nowhere.py'"),
        (["check", "--each", "wrnog.py"], "'wrnog.py': No such file or directory. Did you mean wrong.py?"),
        (["check", "wrnog.py"], "'wrnog.py': No such file or directory. Did you mean wrong.py?"),
        (["check", "wrong"], "can't open the script 'wrong': No such file or directory. Did you mean wrong.py?"),
        (["check", "nowhere.py"], "'nowhere.py': No such file or directory. Check its name and the current folder."),
        (["run", "--nproc", "2", "wrnog.py"], "'wrnog.py': No such file or directory. Did you mean wrong.py?"),
        (["check", "wrong.ipynb"], "can't open the notebook 'wrong.ipynb': No such file or directory. Did you mean"),
        (["memory", "-c", "pass"], "nothing was measured: the program put nothing on a device."),
        (["check", "--each", "--html", "x.html", "wrong.py"], "--html is about one program."),
        (["check", "--each", "--trace", "x.json", "wrong.py"], "--trace is about one program."),
    ],
)
def test_what_was_probably_meant(locus, words, said):
    result = locus(*words)
    assert result.code == 2 and said in result.stderr and result.stderr.count("\n") == 1, result


def test_help_has_the_exit_codes(locus):
    assert "exit status: 0 nothing was found" in " ".join(locus("check", "--help").stdout.split())


def test_a_device_error_points_to_the_check(locus):
    said = locus("run", "wrong.py").stderr
    assert said.rstrip().endswith(
        "`locus check` instead of `locus run` says which tensor that is, and where it came from"
    )
    assert "locus check" not in locus("run", "-c", "raise ValueError('x')").stderr


def test_a_diff_in_color(locus):
    said = locus("fix", "wrong.py", env={"FORCE_COLOR": "1"}).stderr
    assert "\x1b[31m-mask = torch.ones(3)\x1b[0m" in said and "\x1b[32m+mask = " in said
    assert locus("fix", "-o", "-", "wrong.py").stdout.count("+mask = ") == 1


def test_an_option_behind_a_program_that_reads_none(locus):
    said = locus("check", "wrong.py", "--html", "page.html").stderr
    assert said.endswith("locus: --html went to the program; options of Locus stand before it\n"), said
    assert "went to" not in locus("check", "--format", "concise", "wrong.py", "--html", "page.html").stderr
    (locus.folder / "reads.py").write_text(f"import sys\nprint(sys.argv)\n{WRONG}")
    assert "went to" not in locus("check", "reads.py", "--html", "page.html").stderr
    said = locus("fix", "wrong.py", "--apply").stderr
    assert said.endswith("locus: --apply went to the program; options of Locus stand before it\n"), said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, locus):
    if subprocess.run([sys.executable, "-c", "import shtab"], capture_output=True).returncode:
        pytest.skip("needs shtab")
    done = subprocess.run([sys.executable, "-m", "locus", "completion", shell], capture_output=True, text=True)
    assert (
        done.returncode == 0
        and "check" in done.stdout
        and "--baseline" in done.stdout.replace("-l baseline", "--baseline")
    )
    if shell == "bash" and shutil.which("bash"):
        script = (
            f"{done.stdout}\nCOMP_WORDS=(locus ch); COMP_CWORD=1; _shtab_locus locus ch locus; echo ${{COMPREPLY[@]}}\n"
            "COMP_WORDS=(locus check --rng ''); COMP_CWORD=3; _shtab_locus locus '' --rng; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(locus check wro); COMP_CWORD=2; _shtab_locus locus wro check; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(locus check --html wro); COMP_CWORD=3; _shtab_locus locus wro --html; echo ${COMPREPLY[@]}\n"
            "COMP_WORDS=(locus codes LOC04); COMP_CWORD=2; _shtab_locus locus LOC04 codes; echo ${COMPREPLY[@]}"
        )
        completed = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=locus.folder)
        codes = " ".join(f"LOC04{digit}" for digit in range(5))
        assert completed.stdout.split("\n") == ["check", "device cpu", "wrong.py", "wrong.py", codes, ""], completed
    if shell == "fish" and shutil.which("fish"):
        lines = ("locus check wro", "locus check --html wro", "locus report rig", "locus check --format sa")
        script = "\n".join([done.stdout, *(f'complete -C "{line}"' for line in lines)])
        completed = subprocess.run(["fish", "-c", script], capture_output=True, text=True, cwd=locus.folder)
        words = [line.partition("\t")[0] for line in completed.stdout.splitlines()]
        assert words == ["wrong.py", "wrong.py", "right.py", "sarif"], completed


_IN_ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=(\$PWD \$fpath); autoload -Uz compinit && compinit -u -D; bindkey -e"
for line in "$@"; do
  zpty -w shell "$line"$'\t\x01print -r READ$((0)):\x05'
  zpty -r shell said $'*READ0:*\n'
  print -r -- ${${said##*READ0:}%%$'\r'*}
done
"""
"""Types each line and a tab into a zsh of its own, at a terminal, and prints what became of the line."""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_what_is_typed(locus):
    if subprocess.run([sys.executable, "-c", "import shtab"], capture_output=True).returncode:
        pytest.skip("needs shtab")
    (locus.folder / "_locus").write_text(locus("completion", "zsh").stdout)
    whole = {
        "locus ch": "locus check",
        "locus check wro": "locus check wrong.py",
        "locus check --html wro": "locus check --html wrong.py",
        "locus report rig": "locus report right.py",
        "locus check --format sa": "locus check --format sarif",
        "locus check --rng dev": "locus check --rng device",
        "locus check no_such": "locus check no_such",
    }
    command = ["zsh", "-f", "-c", _IN_ZSH, "zsh", *whole]
    done = subprocess.run(command, capture_output=True, text=True, cwd=locus.folder, timeout=120)
    assert dict(zip(whole, done.stdout.splitlines(), strict=True)) == whole, done


def test_completion_of_no_shell(locus):
    assert "a shell is missing. Use bash, zsh or fish." in locus("completion").stderr
