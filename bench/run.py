"""The benchmarks: what simulation and checking cost, as ratios taken in one run. `python bench/run.py [--quick]`

Every figure compares two things that took turns on the same machine within seconds; absolute times stand beside it as
information. A missed bar is printed, not raised: the exit status is 0 unless something crashes. Writes
build/bench.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from dry import CALL, DRY, dry_calls, dry_runs
from measure import FULL, QUICK, Budget, Contender, Result, compare, growth, time_starts
from order import ORDER, order
from ranks import RANKS, RankPair
from table import Row, format_time, render
from worker import MODES, Worker, WorkerError

ROOT = pathlib.Path(__file__).resolve().parent.parent
MICRO = ROOT / "build" / "release" / "bench" / "locus_bench"

SIMULATED = "Simulated, against the same program on the CPU"
CHECKED = "Simulated and checked, against the same program on the CPU"
OTHERS = "Checked, against PyTorch's own ways to look at every call (extra cost of one addition)"
REPEATS = "One mistake again and again, against the same loop without it"
EXPLAINING = "Explaining a new finding, processor time"
MEMORY = "Memory of a checked program"

Workers = dict[str, Worker]


def say(text: str) -> None:
    """What is being done now, on a line of its own that the next one replaces."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _details(results: dict[str, Result], *names: str) -> dict[str, dict[str, float]]:
    return {name: {"best": r.best, "median": r.median, "cpu": r.cpu} for name, r in results.items() if name in names}


def _row(group: str, name: str, kind: str, bar: float | None, results: dict[str, Result], one: str, other: str) -> Row:
    a, b = results[one].best, results[other].best
    value = b / a if kind == "ratio" else b - a
    return Row(group, name, kind, value, bar, format_time(a), format_time(b), _details(results, one, other))


def steps(workers: Workers, budget: Budget) -> Iterator[Row]:
    """Training steps."""
    programs: dict[str, tuple[str, float | None, float | None]] = {
        "train_mlp": ("tiny MLP, a step", 1.2, 1.3),
        # PyTorch's engine gives a device's backward to a thread of its own, here as on a card.
        "train_mlp_in_one_thread": ("the same without autograd's other thread", None, None),
        "train_gpt": ("4-layer GPT, a step", 1.03, 1.05),
        "train_resnet": ("small ResNet, a step", 1.05, 1.08),
    }
    for workload, (title, simulated, checked) in programs.items():
        say(title)
        results = compare({mode: Contender(workers[mode], workload) for mode in MODES}, budget)
        yield _row(SIMULATED, title, "ratio", simulated, results, "plain", "simulated")
        yield _row(CHECKED, title, "ratio", checked, results, "plain", "checked")
        if workload == "train_gpt":  # the ledger is kept in every check; --ledger only prints it
            yield _row(CHECKED, "the same with --ledger", "ratio", 1.02, results, "plain", "checked")
        for worker in workers.values():
            worker.forget()


def distributed(budget: Budget) -> Iterator[Row]:
    """A step of DistributedDataParallel on two ranks, against plain Gloo."""
    say("two ranks")
    title = f"4-layer GPT, DistributedDataParallel, {RANKS} ranks"
    pairs: dict[str, RankPair] = {}
    try:
        for mode in MODES:
            pairs[mode] = RankPair(mode)
        results = compare({mode: Contender(pairs[mode], "ddp") for mode in MODES}, budget)
        yield _row(SIMULATED, title, "ratio", None, results, "plain", "simulated")
        yield _row(CHECKED, title, "ratio", 1.1, results, "plain", "checked")
    finally:
        for pair in pairs.values():
            pair.close()


def single_calls(workers: Workers, budget: Budget) -> Iterator[Row]:
    """One addition of 8 floats, everywhere and under PyTorch's own modes."""
    say("one addition")
    contenders = {mode: Contender(workers[mode], "add") for mode in MODES}
    contenders["checked, CPU"] = Contender(workers["checked"], "add", "cpu")
    contenders["simulated, CPU"] = Contender(workers["simulated"], "add", "cpu")
    contenders["dispatch mode"] = Contender(workers["plain"], "add_in_dispatch_mode")
    contenders["fake mode"] = Contender(workers["plain"], "add_in_fake_mode")
    results = compare(contenders, budget)
    yield _row(SIMULATED, "one addition of 8 floats", "seconds", 0.5e-6, results, "plain", "simulated")
    yield _row(SIMULATED, "the same on the CPU", "seconds", None, results, "plain", "simulated, CPU")
    yield _row(CHECKED, "one addition of 8 floats", "seconds", 2e-6, results, "plain", "checked")
    yield _row(CHECKED, "the same on the CPU", "seconds", 0.7e-6, results, "plain", "checked, CPU")
    # Against the dearer of Locus's two figures: a call on a simulated device.
    extra = {name: result.best - results["plain"].best for name, result in results.items()}
    others = (("fake mode", "FakeTensorMode", 30.0), ("dispatch mode", "a TorchDispatchMode, empty", 1.0))
    for name, title, bar in others:
        gain = extra[name] / max(extra["checked"], 1e-9)
        shown = format_time(extra[name]), format_time(extra["checked"])
        details = _details(results, name, "plain", "checked") | {"gain on the CPU": extra[name] / extra["checked, CPU"]}
        yield Row(OTHERS, title, "gain", gain, bar, *shown, details)


def copies(workers: Workers, budget: Budget) -> Iterator[Row]:
    """Copies of 64 MiB between host and device, against one from host to host."""
    say("copies")
    contenders = {
        "plain": Contender(workers["plain"], "copy_to"),
        "to": Contender(workers["simulated"], "copy_to"),
        "from": Contender(workers["simulated"], "copy_from"),
    }
    results = compare(contenders, budget)
    yield _row(SIMULATED, "64 MiB to the device, against memcpy", "ratio", 1.1, results, "plain", "to")
    yield _row(SIMULATED, "64 MiB from the device, against memcpy", "ratio", 1.1, results, "plain", "from")
    for worker in workers.values():
        worker.forget()


def set_up(budget: Budget) -> Iterator[Row]:
    """What a process pays before its first call."""
    say("set-up")
    programs = {
        "plain": "import torch",
        "simulated": "import torch, locus; locus.simulate()",
        "checked": "import torch, locus; locus.simulate(); "
        "from locus.process.session import Session; Session().start()",
    }
    seconds = time_starts(programs, budget.starts)
    plain = seconds["plain"]
    for group, mode, bar in ((SIMULATED, "simulated", 0.2), (CHECKED, "checked", None)):
        shown = format_time(plain), format_time(seconds[mode])
        yield Row(group, "set-up, against import torch", "seconds", seconds[mode] - plain, bar, *shown)


def repeats(workers: Workers, budget: Budget) -> Iterator[Row]:
    """A loop that makes the same mistake ten thousand times and more."""
    say("repeated findings")
    checked = workers["checked"]
    # First in one piece, while the mistake is new: its first and dearest report is included.
    checked.run("clean_loop", 100)
    clean = checked.run("clean_loop", 10_000).wall
    finding = checked.run("finding_loop", 10_000).wall
    names = ("clean_loop", "finding_loop", "add", "add_mixed")
    results = compare({name: Contender(checked, name) for name in names}, budget)
    title = "a pass forward and back, one operand on the CPU"
    yield _row(REPEATS, title, "ratio", 2.0, results, "clean_loop", "finding_loop")
    yield _row(REPEATS, "nothing but the mistake", "ratio", None, results, "add", "add_mixed")
    shown = format_time(clean), format_time(finding)
    yield Row(REPEATS, "10,000 passes in one piece", "ratio", finding / clean, None, *shown)
    checked.forget()


_TIMED = """
import atexit, time
marks = []
atexit.register(lambda: print(marks[1] - marks[0]))
"""
_MARK = "\nmarks.append(time.process_time())\n"


def findings(budget: Budget) -> Iterator[Row]:
    """What it costs to explain a finding of each kind, in a short file and in a long one."""
    say("explaining")
    sys.path.insert(0, str(ROOT / "tests" / "check"))
    from long_file import KINDS, padding, program

    def explain(text: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            # The first of each kind read the file and warm up; the second are timed.
            first, second = program(len(KINDS), _TIMED + text), program(2 * len(KINDS), "")
            second = second[len(program(len(KINDS), "")) :]
            path.write_text(first + _MARK + second + _MARK)
            command = [sys.executable, "-m", "locus", "check", "--json", os.devnull, str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 1:
            raise WorkerError(f"locus check ended with {done.returncode}:\n{done.stderr}")
        return float(done.stdout.split()[-1]) / len(KINDS)

    texts = {"short": "", "long": padding(330)}
    seconds = {name: min(explain(text) for _ in range(budget.starts)) for name, text in texts.items()}
    shown = format_time(seconds["short"]), format_time(seconds["long"])
    title = "one finding in a file of 200 KB, against one in 5 KB"
    yield Row(EXPLAINING, title, "ratio", seconds["long"] / seconds["short"], 1.5, *shown)


def memory(workers: Workers, budget: Budget) -> Iterator[Row]:
    """What a long loop leaves behind."""
    grown = growth(workers["checked"], "tiny_steps", budget.steps, lambda text: say(f"memory: {text}"))
    loop = f"{budget.steps:,} steps"
    yield Row(MEMORY, f"resident size, {loop}", "bytes", grown["resident"], 1 << 20)
    for table in ("origins", "sites"):
        total = f"{grown[f'{table} now']:,}"
        yield Row(MEMORY, f"table of {table}, {loop}", "count", grown[table], 0, "", total)


def micro_benchmarks(quick: bool) -> str:
    """The C++ benchmarks of engine and simulator, where they were built."""
    if not MICRO.exists():
        return ""
    seconds = 0.02 if quick else 0.2
    command = [str(MICRO), f"--benchmark_min_time={seconds}", "--benchmark_color=false"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout


def measure_all(workers: Workers, budget: Budget) -> list[Row]:
    """Every row, in the order of the table."""
    rows = [
        *steps(workers, budget),
        *distributed(budget),
        *single_calls(workers, budget),
        *set_up(budget),
        *copies(workers, budget),
        *repeats(workers, budget),
        *findings(budget),
        *memory(workers, budget),
        *order(budget),
        *dry_calls(workers["plain"], budget),
        *dry_runs(),
    ]
    groups = [SIMULATED, CHECKED, OTHERS, REPEATS, EXPLAINING, MEMORY, ORDER, CALL, DRY]
    return sorted(rows, key=lambda row: groups.index(row.group))


def main() -> int:
    """Runs the benchmarks and prints the table."""
    parser = argparse.ArgumentParser(prog="bench/run.py", description="What Locus costs, as ratios taken in one run.")
    parser.add_argument("--quick", action="store_true", help="about a minute, less certain")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench.json", help="where the figures go")
    options = parser.parse_args()
    for variable in [key for key in os.environ if key.startswith("LOCUS_")]:
        del os.environ[variable]
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    budget = QUICK if options.quick else FULL
    began, load = time.perf_counter(), os.getloadavg()[0]

    workers: Workers = {}
    try:
        for mode in MODES:
            say(f"starting the {mode} worker")
            workers[mode] = Worker(mode)
        rows = measure_all(workers, budget)
    except WorkerError as error:
        say("")
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        for worker in workers.values():
            worker.close()
    say("")
    print(render(rows))
    judged = [row for row in rows if row.met is not None]
    seconds = time.perf_counter() - began
    print(f"\n{sum(1 for row in judged if row.met)} of {len(judged)} bars met, in {seconds:.0f} s.")
    if load > (os.cpu_count() or 1) / 2:
        print(f"Something else was running (load {load:.1f} at the start): figures near their bar are uncertain.")
    micro = micro_benchmarks(options.quick)
    if micro:
        print(f"\nEngine and simulator by themselves\n{micro}", end="")

    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "quick": options.quick,
        "seconds": round(seconds, 1),
        "load": load,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "rows": [row.as_json() for row in rows],
    }
    options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
