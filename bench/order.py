"""What it costs to follow streams. `python bench/order.py` measures this alone.

A process follows streams from its second one on: two checked processes take turns with the same additions, one with one
stream, one with four. What a process with one stream pays can't be compared with anything, as nothing switches it
off: it is one comparison an operator, and measured by itself (bench/order_bench.cc).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from measure import QUICK, Budget, Contender, compare
from table import Row, format_time, render
from worker import Worker

ORDER = "Following streams, in a checked program"
ADDITIONS = 4096  # in a pass of the workloads
STORAGES = 100_000


def order(budget: Budget) -> Iterator[Row]:
    """Rows for the table."""
    workers = {"one": Worker("checked"), "four": Worker("checked")}
    try:
        contenders = {name: Contender(worker, f"add_on_{name}_stream{'s' * (name != 'one')}")
                      for name, worker in workers.items()}  # fmt: skip
        results = compare(contenders, budget)
        # Processor time: the machine may do something else meanwhile.
        one, four = (results[name].cpu / ADDITIONS for name in ("one", "four"))
        title = "an addition in a program with four streams, against one stream"
        yield Row(ORDER, title, "seconds", four - one, 150e-9, format_time(one), format_time(four))
        sizes = {}
        for name, worker in workers.items():
            worker.run("many_storages", 1000)
            before = worker.memory()["resident"]
            worker.run("many_storages", STORAGES)
            sizes[name] = (worker.memory()["resident"] - before) / STORAGES
        shown = f"{sizes['one']:.0f} bytes", f"{sizes['four']:.0f} bytes"
        yield Row(ORDER, "bytes of a storage that is followed", "count", sizes["four"] - sizes["one"], 40, *shown)
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    print(render(list(order(QUICK))))
    print(f"load {os.getloadavg()[0]:.1f}")
