"""Runs the cases of tables of a real GPU's verdicts in a check, each as a program would that catches nothing; prints
one JSON object.

    python tests/conformance/checked.py [--first] [--more] [--part K/N] [--only NAME] TABLE …

The card refuses a case if and only if the check has a finding. Where a refused call went on in the check, its result
has the shapes and dtypes of the CPU's (first samples). --first: of each operator the first case that is refused and the
first that is legal. --more: instead of the tables' cases, further samples of every operator in PyTorch's database, each
tensor alone on the other device, against the simulated device's own verdict without a check.

Each case runs in a thread of its own: nobody catches what it raises, as in a program.
"""

import argparse
import collections
import contextlib
import gc
import itertools
import json
import sys
import threading

from locus.ground_truth import cases, table, worker

MORE_SAMPLES = 12


class Check:
    """A check that never ends, of many small programs."""

    def __init__(self):
        self.torch = cases.prepare()
        import locus

        locus.simulate(devices=1)
        from locus.process.session import Session

        self.session = Session()
        self.session.start()
        threading.excepthook = lambda arguments: None  # a hook of the program's own, that prints nothing

    def run(self, call):
        """(how many findings the call gave, its result or None)."""
        result = []

        def program():
            result.append(call())

        self.session.begin_part()
        gc.freeze()  # a finding looks for names among the program's objects: what was there before is none of them
        thread = threading.Thread(target=program)
        thread.start()
        thread.join()
        return self.session.finding_count(), result[0] if result else None

    def message(self):
        """That of the first finding."""
        return self.session.so_far()["findings"][0]["message"]

    def unchecked(self, call):
        """What PyTorch says to a call without a check."""
        self.session.set_policy("raise")
        try:
            return worker.said_by(call)
        finally:
            self.session.set_policy("collect")


@contextlib.contextmanager
def all_on_host():
    """Cases that are made, or called, in here have all their tensors on the CPU."""
    home, cases.HOME = cases.HOME, "cpu"
    try:
        yield
    finally:
        cases.HOME = home


def key_of(entry, case):
    return table.Key(*entry[:3], case.dtype, case.sample, case.operand, case.moved)


class Tally:
    """What became of each case."""

    def __init__(self, check):
        from locus.watch import messages

        self.check, self.is_about_devices = check, messages.read
        self.count = collections.Counter()
        self.missed, self.alarms, self.garbage, self.others = [], [], [], collections.Counter()

    def add(self, key, said, case, host):
        """Runs a case in a check; `host`: the same with everything on the CPU, or None."""
        findings, result = self.check.run(case.call)
        self.count["cases"] += 1
        if said.outcome == "ok":
            self.count["legal"] += 1
            if findings:
                self.alarms.append([*key, self.check.message(), said.detail])
        elif self.is_about_devices(said.detail) is None:
            self.count["refused for other reasons"] += 1
            self.others[said.detail] += 1
        else:
            self.count["refused"] += 1
            if not findings:
                self.missed.append([*key, said.detail])
            if result is not None and host is not None:
                self.compare(key, result, host)

    def compare(self, key, result, host):
        """After the operands were moved, the result is of the kind that the CPU gives."""
        self.check.session.set_policy("raise")
        try:
            with all_on_host():
                expected = self.kinds(host.call())
        except Exception:
            return  # the CPU has no such operator
        finally:
            self.check.session.set_policy("collect")
        self.count["results compared"] += 1
        if self.kinds(result) != expected:
            self.garbage.append([*key, str(self.kinds(result)), str(expected)])

    def kinds(self, value):
        """The shapes and dtypes of a result's tensors."""
        leaves = [leaf for leaf in cases.flatten(value)[0] if isinstance(leaf, self.check.torch.Tensor)]
        return [(list(leaf.shape), str(leaf.dtype)) for leaf in leaves]


def of_host(entry):
    """The cases of an entry's first sample with everything on the CPU, by key; none where they are made elsewhere."""
    if entry.kind == "made":
        return {}
    with all_on_host():
        made = entry.cases()
        first = next(made, None)
        sample = itertools.takewhile(lambda case: (case.dtype, case.sample) == (first.dtype, first.sample), made)
        return {key_of(entry, case): case for case in ([first, *sample] if first is not None else [])}


def cases_of(entry, known, more, seen):
    """(key, case, row of the table or None) of the cases that are asked for; with `seen`, of an entry's first sample
    and of each operator only what is new in it."""
    sample = None
    for case in entry.cases():
        key = key_of(entry, case)
        row = known.get(key)
        if row is not None and not table.same_shapes(row.shapes, case.shapes):
            row = None
        if (row is None) != more:
            continue
        if seen is not None and row is not None:
            sample = sample or (case.dtype, case.sample)
            if (case.dtype, case.sample) != sample:
                return
            verdict = entry.name, entry.variant, row.said.outcome == "ok"
            if verdict in seen:
                continue
            seen.add(verdict)
        yield key, case, row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only")
    options = parser.parse_args()
    check = Check()
    known = {key: row for path in options.tables for key, row in table.read(path).rows.items()}
    tally, seen = Tally(check), set() if options.first else None
    kinds, dtypes = {key.kind for key in known}, tuple(dict.fromkeys(key.dtype for key in known))
    if options.more:
        kinds, cases.MADE_SAMPLES = {"made"}, MORE_SAMPLES
    part, parts = map(int, options.part.split("/"))
    wanted = [entry for entry in cases.entries(dtypes) if entry.kind in kinds and options.only in (None, entry.name)]
    for entry in wanted[part::parts]:
        check.torch.manual_seed(0)
        try:
            if seen is not None and {(entry.name, entry.variant, legal) for legal in (True, False)} <= seen:
                continue
            host = of_host(entry)
            for key, case, row in cases_of(entry, known, options.more, seen):
                tally.add(key, row.said if row is not None else check.unchecked(case.call), case, host.get(key))
        except Exception as error:  # the database can't make its samples here
            tally.count["entries that PyTorch can't make"] += 1
            print(f"{entry[:3]}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
    result = {name: getattr(tally, name) for name in ("missed", "alarms", "garbage", "others")}
    print(json.dumps({**tally.count, **result}))


if __name__ == "__main__":
    main()
