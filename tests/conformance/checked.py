"""Runs the cases of a table of a real GPU's verdicts in a check, each as a program would that catches nothing; prints
one JSON object.

    python tests/conformance/checked.py TABLE [--first] [--part K/N] [--more]

A case is refused by the card if and only if the check has a finding; after it, where the call went on, the result has
the shapes and dtypes of the CPU's. --first: of each operator and kind the first sample. --more: the cases of PyTorch's
databases that the table has not, against the simulated device's own verdicts without a check.
Each case runs in a thread of its own: what it raises is caught by nobody, as in a program.
"""

import argparse
import collections
import gc
import json
import sys
import threading

from locus.ground_truth import cases, table, worker

options = None


def begin():
    """The devices, and a check that never ends."""
    torch = cases.prepare()
    import locus

    locus.simulate(devices=1)
    from locus.session import Session

    session = Session()
    session.start()
    threading.excepthook = lambda arguments: None  # the program's own hook: nothing is printed
    return torch, session


class Outcome:
    """What a case came to in a check."""

    def __init__(self, session, call):
        self.result = self.error = None
        session.begin_part()

        def program():
            self.result = call()

        thread = threading.Thread(target=program)
        thread.start()
        thread.join()
        self.findings = session.finding_count()


def unchecked(session, call):
    """What PyTorch says without a check."""
    session.set_policy("raise")
    try:
        return worker.said_by(call)
    finally:
        session.set_policy("collect")


def kind_of(value, torch):
    """The shapes and dtypes of a result's tensors."""
    return [(list(leaf.shape), str(leaf.dtype)) for leaf in cases.flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def on_host(entry):
    """The same cases with every tensor on the CPU, for entries whose samples are made there; else nothing."""
    if entry.kind == "made":
        return {}
    home, cases.HOME = cases.HOME, "cpu"
    try:
        return {key_of(entry, case): case for case in entry.cases()}
    finally:
        cases.HOME = home


def key_of(entry, case):
    return table.Key(*entry[:3], case.dtype, case.sample, case.operand, case.moved)


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only")
    options = parser.parse_args()
    torch, session = begin()
    from locus import messages

    known = table.read(options.table)
    kinds, dtypes = {key.kind for key in known.rows}, tuple(dict.fromkeys(key.dtype for key in known.rows))
    part, parts = map(int, options.part.split("/"))
    entries = [entry for entry in cases.entries(dtypes) if entry.kind in kinds][part::parts]
    gc.collect()
    gc.freeze()  # a finding looks at the program's objects; the databases are none
    count, missed, alarms, garbage, others = collections.Counter(), [], [], [], collections.Counter()
    for entry in entries:
        if options.only and entry.name != options.only:
            continue
        torch.manual_seed(0)
        first = None
        try:
            for case in entry.cases():
                key = key_of(entry, case)
                row = known.rows.get(key)
                if (row is None or not table.same_shapes(row.shapes, case.shapes)) != options.more:
                    continue
                if options.first and first not in (None, (case.dtype, case.sample)):
                    break
                first = case.dtype, case.sample
                said = unchecked(session, case.call) if options.more else row.said
                outcome = Outcome(session, case.call)
                count["cases"] += 1
                if said.outcome == "ok":
                    count["legal"] += 1
                    if outcome.findings:
                        alarms.append([*key, said.detail, session.so_far()["findings"][0]["message"]])
                elif messages.read(said.detail) is None:
                    count["refused for another reason"] += 1
                    count["of them with a finding"] += bool(outcome.findings)
                    others[said.detail] += 1
                else:
                    count["refused"] += 1
                    if not outcome.findings:
                        missed.append([*key, said.detail])
        except Exception as error:
            count["samples that PyTorch can't make"] += 1
            print(f"{entry[:3]}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
    print(json.dumps({**count, "missed": missed, "alarms": alarms, "garbage": garbage, "others": others}))


if __name__ == "__main__":
    main()
