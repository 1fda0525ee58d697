"""Runs the ranks of a program as forked children of a process that has torch loaded: what `locus check --nproc` does,
without the seconds that each rank's imports would take. Called in a child of tests/e2e/forkrunner.py.
"""

import atexit
import json
import os
import select
import signal
import socket
import sys
import time
import traceback

import forkrunner

from locus import scratch
from locus.process import children, reports, runner, simulation
from locus.program.end import End
from locus.ranks import checking


def check(script, count, report, deadline="30", devices=None, act="", steps=""):
    """Checks `count` ranks of a script; writes {"report", "codes", "seconds"} to the file `report`.

    act: "kill:RANK" or "stop:RANK" sends SIGKILL or SIGSTOP to a rank that has printed "ready".
    """
    from locus.process.session import Session

    began = time.monotonic()
    options = simulation.check_options(int(devices or count))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if steps:
        os.environ[children.STEPS_VARIABLE] = str(steps)
    with children.gathering() as folder:
        pids = [start(script, number, int(count), port, options, act) for number in range(int(count))]
        codes = wait(pids, began + float(deadline), act)
        session = Session(script)
        session.load()
        children.take_in(session, folder)
        checking.judge(session, folder, codes)
        found = session.report(End(next((c for c in codes.values() if c), 0)))
        text, words = found.render("json"), reports.render(found, "text").decode()
    with open(report, "w") as file:
        json.dump(
            {"report": json.loads(text), "text": words, "codes": codes, "seconds": time.monotonic() - began}, file
        )
    return 0


def start(script, number, count, port, options, act):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    # No `except` here: to a check it would be one that the program has around itself.
    try:
        os.environ.update(
            RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GROUP_RANK="0",
        )  # fmt: skip
        if act:
            os.environ["TEST_READY"] = f"{os.environ[scratch.FOLDER_VARIABLE]}/ready-{number}"
        simulation.activate(options)
        children.start_in_child()
        for path in [script]:  # a handler that is far outside, around a loop, is not one that waits for the error
            code = runner.run(runner.Target("script", path, []))
    finally:
        leave(code)


def leave(code):
    """As the interpreter would end, without going back through the frames of the server."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    elif error is not None:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)


def wait(pids, deadline, act):
    codes = {}
    acted = not act
    left = dict(enumerate(pids))
    grace = None
    while left and time.monotonic() < (grace or deadline):
        if not acted:
            what, _, victim = act.partition(":")
            if os.path.exists(f"{os.environ[scratch.FOLDER_VARIABLE]}/ready-{victim}"):
                os.kill(pids[int(victim)], signal.SIGKILL if what == "kill" else signal.SIGSTOP)
                acted = True
        descriptors = {os.pidfd_open(pid): number for number, pid in left.items()}
        select.select(list(descriptors), [], [], 0.2)
        for descriptor in descriptors:
            os.close(descriptor)
        for number, pid in list(left.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[number] = os.waitstatus_to_exitcode(status)
                del left[number]
                if codes[number] and grace is None:
                    grace = min(deadline, time.monotonic() + 5)
    for pid in left.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return codes


assert forkrunner  # what runs this: the name says where to look
