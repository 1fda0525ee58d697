"""The command line in fresh interpreters: `locus run`, `python -m locus`, the environment, and what goes wrong.

Fresh, because the order in which torch and Locus are loaded is part of what is tested. A program that does not
import torch starts at once, so the tests of arguments, paths and exit codes don't.
"""

import os
import subprocess
import sys
import textwrap

import pytest

DEADLINE = 120
COUNT = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"
FACTS = """
import os, sys
print([os.path.basename(sys.argv[0]), *sys.argv[1:]], __name__, __package__, __spec__ and __spec__.name)
print(globals().get("__file__") and os.path.basename(__file__))
print(sys.path[0] and os.path.basename(os.path.realpath(sys.path[0])))
print(sys.modules["__main__"].__dict__ is globals(), "torch" in sys.modules, __doc__)
print(sorted(k for k in globals() if k.startswith("__")))
"""


def start(*arguments, env=None, cwd=None, stdin=""):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LOCUS_")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**clean, **(env or {})},
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def locus(*arguments, **options):
    return start("-m", "locus", *arguments, **options)


def write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def assert_refused(result, *words):
    """Exit code 2, one message that names the input and the way out, nothing on stdout, no traceback."""
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert result.stdout == "" and "Traceback" not in result.stderr, result.stderr
    for word in words:
        assert word in result.stderr, (word, result.stderr)


def test_run_gives_the_program_devices(tmp_path):
    path = write(
        tmp_path,
        "prog.py",
        """
        import sys, torch
        x = torch.arange(4, device="cuda:1").float().requires_grad_()
        (x * 2).sum().backward()
        print(torch.cuda.device_count(), x.grad.tolist(), x.grad.device, sys.argv[1:])
        print(torch.cuda.get_device_properties(0).total_memory)
    """,
    )
    result = locus("run", "--devices", "2", "--memory", "24GiB", path, "--devices", "7", "-x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["2 [2.0, 2.0, 2.0, 2.0] cuda:1 ['--devices', '7', '-x']", str(24 << 30)]
    assert result.stderr == ""


def test_run_defaults_to_one_device():
    assert locus("run", "-c", COUNT).stdout == "True 1\n"


def test_the_installed_command_is_the_same(tmp_path):
    command = os.path.join(os.path.dirname(sys.executable), "locus")
    result = subprocess.run([command, "run", "-c", "print(1 + 1)"], capture_output=True, text=True, timeout=DEADLINE)
    assert (result.returncode, result.stdout, result.stderr) == (0, "2\n", "")


def test_environment():
    result = start(
        "-c", COUNT + "\nprint(torch.cuda.mem_get_info()[1])", env={"LOCUS_SIMULATE": "cuda:3", "LOCUS_MEMORY": "16GiB"}
    )
    assert (result.returncode, result.stdout) == (0, f"True 3\n{16 << 30}\n"), result.stderr


def test_environment_reaches_child_processes():
    text = f"import subprocess, sys; sys.stdout.flush(); subprocess.run([sys.executable, '-c', {COUNT!r}])"
    assert locus("run", "--devices", "5", "-c", text).stdout == "True 5\n"


def test_environment_rng():
    """ "device": the same seed on the device, whatever the CPU has drawn; "cpu": one stream for both."""
    text = """
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.zeros(1, device=device)
torch.manual_seed(0)
print(torch.rand(1).item(), torch.rand(2, device=device).tolist())
"""
    plain = start("-c", text).stdout
    assert start("-c", text, env={"LOCUS_SIMULATE": "1", "LOCUS_RNG": "cpu"}).stdout == plain != ""
    assert start("-c", text, env={"LOCUS_SIMULATE": "1"}).stdout not in (plain, "")


def test_simulate_after_torch_was_imported_and_used():
    result = start(
        "-c",
        """
import torch
(torch.ones(3) + 1).sum()
assert not torch.cuda.is_available()
import locus
locus.simulate(devices=2, memory="80GiB")
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
print(torch.ones(2, device="cuda").sum().item(), torch.cuda.get_device_properties(1).total_memory)
locus.simulate(devices=2, memory="80GiB")
""",
    )
    assert (result.returncode, result.stdout) == (0, f"2.0 {80 << 30}\n"), result.stderr


def test_simulate_before_torch_is_imported():
    result = start("-c", "import locus; locus.simulate(devices=2)\n" + COUNT)
    assert (result.returncode, result.stdout) == (0, "True 2\n"), result.stderr


def test_no_devices_is_a_machine_without_cuda():
    text = (
        COUNT
        + """
try:
    torch.ones(1, device="cuda")
except (RuntimeError, AssertionError) as error:
    print("refused", len(str(error)) > 0)
print((torch.ones(2) * 2).sum().item())
"""
    )
    result = locus("run", "--devices", "0", "-c", text)
    assert (result.returncode, result.stdout) == (0, "False 0\nrefused True\n4.0\n"), result.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--devices", "1000"], ["1000", "64"]),
        (["--devices", "-1"], ["-1", "64"]),
        (["--devices", "two"], ["two", "64"]),
        (["--memory", "12parsecs"], ["12parsecs", "80GiB"]),
        (["--memory", "0"], ["0", "80GiB"]),
        (["--rng", "dice"], ["dice", "device", "cpu"]),
        (["--sideways"], ["--sideways"]),
    ],
)
def test_bad_options(arguments, words):
    assert_refused(locus("run", *arguments, "-c", "print('ran')"), *words)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["no_such_script.py"], ["no_such_script.py"]),
        (["-m", "no_such_module"], ["no_such_module"]),
        ([], ["script", "--help"]),
        (["."], ["."]),
    ],
)
def test_bad_programs(arguments, words, tmp_path):
    assert_refused(locus("run", *arguments, cwd=tmp_path), *words)


@pytest.mark.parametrize(
    "env, words",
    [
        ({"LOCUS_SIMULATE": "cuda:1000"}, ["LOCUS_SIMULATE", "cuda:1000", "64"]),
        ({"LOCUS_SIMULATE": "tpu"}, ["LOCUS_SIMULATE", "tpu", "cuda:2"]),
        ({"LOCUS_SIMULATE": "1", "LOCUS_MEMORY": "12parsecs"}, ["LOCUS_MEMORY", "12parsecs", "80GiB"]),
        ({"LOCUS_SIMULATE": "1", "LOCUS_RNG": "dice"}, ["LOCUS_RNG", "dice", "cpu"]),
    ],
)
def test_bad_environment(env, words):
    assert_refused(start("-c", "import torch; print('ran')", env=env), *words)


@pytest.mark.parametrize(
    "call, words",
    [
        ("devices=1000", ["1000", "64"]),
        ("devices='2'", ["'2'", "64"]),
        ("memory='12parsecs'", ["12parsecs", "80GiB"]),
        ("memory=-1", ["-1", "80GiB"]),
        ("rng='dice'", ["dice", "cpu"]),
    ],
)
def test_bad_calls(call, words):
    result = start(
        "-c",
        f"import locus\ntry:\n    locus.simulate({call})\nexcept locus.errors.UsageError as error:\n    print(error)",
    )
    assert result.returncode == 0 and all(word in result.stdout for word in words), (result.stdout, result.stderr)


@pytest.mark.parametrize(
    "ending, code, error",
    [
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('gone')", 1, "gone\n"),
        ("import os; os._exit(4)", 4, ""),
        ("pass", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
)
def test_exit_codes_pass_through(ending, code, error, tmp_path):
    result = locus("run", write(tmp_path, "prog.py", ending))
    assert (result.returncode, result.stderr) == (code, error)


@pytest.mark.parametrize("how", ["script", "module", "code"])
def test_the_program_looks_as_under_python(how, tmp_path):
    write(tmp_path, "prog.py", FACTS)
    target = {"script": ["prog.py"], "module": ["-m", "prog"], "code": ["-c", FACTS]}[how]
    under_python, under_locus = (
        start(*target, "a", "--b", cwd=tmp_path),
        locus("run", *target, "a", "--b", cwd=tmp_path),
    )
    assert under_python.returncode == 0, under_python.stderr
    assert (under_locus.returncode, under_locus.stdout) == (0, under_python.stdout), under_locus.stderr


@pytest.mark.parametrize("how", ["script", "module", "code"])
def test_exceptions_look_as_under_python(how, tmp_path):
    text = "def inner():\n    raise KeyError('lost')\n\ninner()\n"
    write(tmp_path, "prog.py", text)
    target = {"script": ["prog.py"], "module": ["-m", "prog"], "code": ["-c", text]}[how]
    under_python, under_locus = start(*target, cwd=tmp_path), locus("run", *target, cwd=tmp_path)
    assert under_locus.returncode == under_python.returncode == 1
    assert under_locus.stderr == under_python.stderr


def test_an_error_of_a_device_shows_no_frames_of_locus(tmp_path):
    path = write(
        tmp_path,
        "prog.py",
        """
        import torch
        a = torch.ones(2, device="cuda")
        a + torch.ones(2)
    """,
    )
    result = locus("run", path)
    assert result.returncode == 1
    assert "Expected all tensors to be on the same device" in result.stderr and 'prog.py", line 4' in result.stderr, (
        result.stderr
    )
    assert result.stderr.count('File "') == 1, result.stderr


def test_syntax_errors_are_the_programs_own(tmp_path):
    path = write(tmp_path, "prog.py", "x = (1,\n")
    under_python, under_locus = start(path), locus("run", path)
    assert (under_locus.returncode, under_locus.stderr) == (under_python.returncode, under_python.stderr)


def test_programs_find_their_neighbors_and_their_input(tmp_path):
    write(tmp_path, "neighbor.py", "VALUE = 41")
    path = write(tmp_path, "prog.py", "import neighbor, sys; print(neighbor.VALUE + 1, sys.stdin.read())")
    assert locus("run", path, cwd="/", stdin="hello").stdout == "42 hello\n"


def test_spawned_workers_find_the_program(tmp_path):
    path = write(
        tmp_path,
        "prog.py",
        """
        import multiprocessing as mp
        import torch

        def work(queue):
            x = torch.ones(3, device="cuda:1")
            total = torch.cuda.get_device_properties(0).total_memory
            queue.put((torch.cuda.device_count(), str(x.device), x.sum().item(), total))

        if __name__ == "__main__":
            for method in ("spawn", "forkserver"):
                context = mp.get_context(method)
                queue = context.Queue()
                worker = context.Process(target=work, args=(queue,))
                worker.start()
                print(method, queue.get(timeout=100))
                worker.join()
    """,
    )
    result = locus("run", "--devices", "2", "--memory", "1GiB", path)
    fact = (2, "cuda:1", 3.0, 1 << 30)
    assert (result.returncode, result.stdout) == (0, f"spawn {fact}\nforkserver {fact}\n"), result.stderr


def test_help_and_version():
    assert locus("--version").stdout.startswith("locus ")
    for arguments in (["--help"], ["run", "--help"], []):
        result = locus(*arguments)
        assert result.returncode == 0 and "run" in result.stdout, result
