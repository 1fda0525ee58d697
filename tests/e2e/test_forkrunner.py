"""The runner itself: a program must not be able to tell it from a plain interpreter."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest


def source(text):
    return textwrap.dedent(text)


def test_argv_main_and_path(program, tmp_path):
    result = program.run_source(
        source("""
        import os, sys
        print(sys.argv[1:], __name__, os.path.basename(__file__), sys.path[0] == os.path.dirname(__file__))
        print(os.getcwd(), os.environ["COLOR"], sys.modules["__main__"].__dict__ is globals())
        print(sys.stdin.read() == "", "torch" in sys.modules)
    """),
        "a",
        "--b",
        cwd=tmp_path,
        env={"COLOR": "red"},
    ).ok()
    assert result.stdout.splitlines() == ["['a', '--b'] __main__ program.py True", f"{tmp_path} red True", "True True"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    "ending, code, error",
    [
        ("raise SystemExit(7)", 7, ""),
        ("import sys; sys.exit('no such thing')", 1, "no such thing\n"),
        ("import os; os._exit(9)", 9, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("pass", 0, ""),
    ],
)
def test_exit_codes(program, ending, code, error):
    result = program.run_source(ending)
    assert (result.code, result.stderr) == (code, error), result.describe()


def test_traceback_shows_the_program_only(program):
    result = program.run_source("def f():\n    return 1 / 0\n\nf()\n")
    assert result.code == 1
    assert result.stderr.count('File "') == 2 and "forkrunner" not in result.stderr.replace("/forkrunner", "")
    assert result.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_deadline_kills_the_program_and_what_it_started(program):
    result = program.run_source("import subprocess\nsubprocess.run(['sleep', '100'])\n", deadline=0.5)
    assert result.timed_out and result.code == -signal.SIGKILL and result.seconds < 5


def test_programs_do_not_see_each_other(program):
    program.run_source("import os, torch; torch.manual_seed(1); torch.leftover = 1; os.environ['LEFTOVER'] = '1'").ok()
    program.run_source("import os, torch; assert not hasattr(torch, 'leftover') and 'LEFTOVER' not in os.environ").ok()


def test_parallel_ops_and_backward_work_in_a_child(program):
    text = """
        import torch
        torch.set_num_threads(2)
        x = torch.ones(2000, 500, requires_grad=True)
        (x @ x.T).sum().backward()
        print(x.grad.sum().item() > 0, torch.get_num_threads())
    """
    for _ in range(2):
        assert program.run_source(source(text)).ok().stdout == "True 2\n"


def test_a_fork_is_faster_than_a_start(program):
    program.run_source("pass").ok()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch; torch.ones(1)"], check=True)
    start = time.perf_counter() - began
    assert min(program.run_source("import torch; torch.ones(1)").ok().seconds for _ in range(3)) < start


def test_call(program):
    result = program.call("operator:add", 1, 2)
    assert result.code == 3
    assert program.call("textwrap:dedent", "  x").code == 0
