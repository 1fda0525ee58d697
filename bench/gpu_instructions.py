"""What Locus costs on a real GPU, in instructions of the host: a training step of a small GPT, plain, under a check
that does not follow streams, and under one that does; with one stream and with two.

    python bench/gpu_instructions.py [--json FILE] [--layers N]

Needs a GPU and a C++ compiler. Counting goes instruction by instruction (instructions.py): minutes.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time

from gpu import make_prefetching_step, make_step, start_check
from instructions import Counter

WAYS = ("plain", "not followed", "followed")
BAR = 1.02
STEPS = {"one stream": make_step, "two streams": make_prefetching_step}
ROUNDS = 2
WARM_UP = 12


def count(way: str, title: str, layers: int) -> list[int]:
    """The instructions of some steps, in this process."""
    findings = None
    if way != "plain":
        bridge, check = start_check()
        if way == "not followed":
            bridge.CardOrder.stop()
        bridge.open_door(True)
        findings = check.finding_count
    gc.collect()
    gc.disable()  # else its work is in one of the counts
    sys.setswitchinterval(100)  # seconds: a thread that waits for the interpreter would ask again and again
    step = STEPS[title](2, 256, layers=layers)
    for _ in range(WARM_UP):
        step()
    with tempfile.TemporaryDirectory() as folder:
        counter = Counter(folder)
        counts = [counter.count(step) for _ in range(ROUNDS)]
    if (way, title) == ("followed", "two streams") and not bridge.CardOrder.is_followed():
        raise SystemExit("streams were not followed to the end")
    if findings is not None and findings():
        raise SystemExit("there are findings")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(count(*arguments.one, arguments.layers)))
        return 0
    began = time.perf_counter()
    command = [sys.executable, __file__, "--layers", str(arguments.layers), "--one"]
    running = {
        (way, title): subprocess.Popen([*command, way, title], stdout=subprocess.PIPE, text=True)
        for way in WAYS
        for title in STEPS
    }  # at the same time: what is counted does not depend on who else computes
    counts = {}
    for key, process in running.items():
        said = process.communicate()[0]
        if process.returncode:
            for other in running.values():
                other.kill()
            return 1
        counts[key] = json.loads(said.splitlines()[-1])
        print(f"{', '.join(key)}: {counts[key]} after {time.perf_counter() - began:.0f} s", flush=True)
    for title in STEPS:
        plain, without, followed = (min(counts[way, title]) for way in WAYS)
        print(
            f"  {title:12} {plain:12,} plain  {without / plain:.3f}x checked  {followed / without:.4f}x followed"
            f"  <= {BAR:.2f}x  {'met' if followed <= BAR * without else 'missed'}"
        )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({", ".join(key): each for key, each in counts.items()}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
