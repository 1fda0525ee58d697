"""Runs Python programs in forked children of one server that has torch imported already.

Importing torch takes seconds, a fork takes milliseconds. The server never runs a parallel operator, a backward
pass or anything on a device, so a child starts with no threads missing and no device in use. It does not replace
the tests of the command line (test_cli_run.py): those start a fresh interpreter on purpose.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_exit = os._exit  # the system's: a check puts its own in its place

# torch._dynamo is what the first optimizer step would import (a second or two in every child).
PRELOAD = (
    "numpy",
    "torch",
    "torch._dynamo",
    "torch.utils.data",
    "torch.utils.checkpoint",
    "torch.func",
    "locus",
    "pytest",
    "simulated",
)


@dataclass(frozen=True)
class Result:
    """What a program left behind."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool

    def ok(self) -> Result:
        """Itself, or an AssertionError that shows everything."""
        assert self.code == 0 and not self.timed_out, self.describe()
        return self

    def describe(self) -> str:
        fate = "ran past its deadline" if self.timed_out else f"exit code {self.code}"
        return f"{fate} after {self.seconds:.1f} s\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


class ForkRunner:
    """The client's side: starts the server at first use, one request at a time."""

    def __init__(self, python: str = sys.executable, threads: int = 1):
        self.python, self.threads, self.server = python, threads, None
        self.folder = tempfile.TemporaryDirectory(prefix="forkrunner")

    def run(self, script, *args, **options) -> Result:
        """Runs a script as `python script args…` would; see `_request` for the options."""
        return self._request(script=str(script), argv=[str(a) for a in args], **options)

    def run_source(self, source: str, *args, **options) -> Result:
        """Runs program text; it is written to a file so that it has lines to point at."""
        path = Path(tempfile.mkdtemp(dir=self.folder.name)) / "program.py"
        path.write_text(source)
        return self.run(path, *args, **options)

    def call(self, function: str, *args, **options) -> Result:
        """Calls "package.module:function" with the arguments; an int it returns is the exit code."""
        return self._request(call=function, argv=list(args), **options)

    def _request(self, *, simulate=None, env=None, cwd=None, deadline=60.0, teardown=False, **what) -> Result:
        """simulate: None, a number of devices, or the keyword arguments of locus.simulate. teardown: the interpreter
        takes itself down at the end, as it does at home; PyTorch's share of that is most of a small program's time."""
        if self.server is None or self.server.poll() is not None:
            self._start()
        folder = Path(tempfile.mkdtemp(dir=self.folder.name))
        simulate = {"devices": simulate} if isinstance(simulate, int) else simulate
        request = dict(
            what, simulate=simulate, env=env or {}, cwd=str(cwd or folder), deadline=deadline, folder=str(folder),
            teardown=teardown,
        )  # fmt: skip
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        line = self.server.stdout.readline()
        if not line:
            raise RuntimeError("the server that forks programs has ended; its messages are above")
        output = [(folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        return Result(stdout=output[0], stderr=output[1], **json.loads(line))

    def _start(self):
        env = dict(
            os.environ, OMP_NUM_THREADS=str(self.threads), MKL_NUM_THREADS=str(self.threads), PYTHONUNBUFFERED="1"
        )
        env = {k: v for k, v in env.items() if not k.startswith("LOCUS_")}
        self.server = subprocess.Popen(
            [self.python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        if self.server.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self.python} could not start the server that forks programs")

    def close(self):
        if self.server is not None:
            self.server.stdin.close()
            self.server.wait(timeout=10)
            self.server.stdout.close()
            self.server = None
        self.folder.cleanup()


def serve() -> int:
    """The server's side; returns in a child too, with the child's exit code, so that the interpreter ends as usual."""
    # Children must not write into the channel, nor programs find its descriptors as 0 and 1.
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in PRELOAD:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            print(f"forkrunner: not preloaded: {error}", file=sys.stderr)
    gc.collect()
    gc.freeze()  # a child's collector then leaves the server's pages shared
    answers.write("ready\n")
    answers.flush()
    for line in requests:
        request = json.loads(line)
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            code = run_child(request)
            return code if request["teardown"] else leave(code)
        code, timed_out = wait(child, request["deadline"])
        answers.write(json.dumps(dict(code=code, seconds=time.monotonic() - start, timed_out=timed_out)) + "\n")
        answers.flush()
    return 0


def leave(code: int) -> NoReturn:
    """Ends as the interpreter does, up to where it would begin to take itself down."""
    try:
        threading._shutdown()  # waits for the program's threads
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException:
        traceback.print_exc()
    _exit(code)


def wait(child: int, deadline: float) -> tuple[int, bool]:
    """Exit code (negative: the signal), as subprocess counts; what the child started dies with it."""
    descriptor = os.pidfd_open(child)
    finished, _, _ = select.select([descriptor], [], [], deadline)
    os.close(descriptor)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # before the wait: until then the number cannot be given to anyone else
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), not finished


def run_child(request: dict) -> int:
    """In the child: becomes the program that was asked for."""
    os.setpgid(0, 0)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(os.path.join(request["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    try:
        if request["simulate"] is not None:
            locus = importlib.import_module("locus")
            locus.simulate(**request["simulate"])
        if "call" in request:
            module, function = request["call"].split(":")
            result = getattr(importlib.import_module(module), function)(*request["argv"])
            return result if isinstance(result, int) else 0
        run_script(request["script"], request["argv"])
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # Without this file's frames, as if the interpreter had started the script itself.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return 1
    return 0


def run_script(path: str, argv: list[str]):
    """As `python path argv…`; not runpy, which would tear __main__ down before the interpreter ends."""
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = path, __builtins__
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main  # the second: what spawned workers send back by name
    sys.argv = [path, *argv]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    exec(code, main.__dict__)


if __name__ == "__main__":
    sys.exit(serve())
