"""Compares the simulated device's verdicts with the second table of a real GPU; prints one JSON object.

    python tests/conformance/placement_check.py [STEP]      # every STEPth entry of the databases, 1: all

tests/data/placement_more_h200_torch2.11.tsv was taken by placement.py on an NVIDIA H200 with PyTorch 2.11: other dtypes
than the first table, in-place calls, out=, backward passes, modules, optimizers.
"""

import collections
import json
import pathlib
import sys

import placement

TABLE = pathlib.Path(__file__).resolve().parent.parent / "data" / "placement_more_h200_torch2.11.tsv"


def main(step):
    placement.prepare()
    import locus

    locus.simulate(devices=1)
    table = placement.read_table(TABLE)
    count, different, words = collections.Counter(), [], []
    everything = [(kind, *entry) for kind in placement.KINDS for entry in placement.entries(kind)]
    for kind, name, variant, cases in everything[::step]:
        for row in placement.rows_of(kind, name, variant, cases):
            key, shapes, said = row[:7], row[7], row[8:]
            known = table.get(key)
            if known is None or known[0] != shapes:
                count["unmatched"] += 1
                continue
            count["matched"] += 1
            equal = said == known[1:] if known[1] == "ok" else said[0] != "ok"
            count["equal"] += equal
            if not equal:
                different.append([*key, said[1], known[2]])
            elif known[1] != "ok":
                count["refused by both"] += 1
                count["same words"] += said == known[1:]
                if said != known[1:]:
                    words.append([*key, said[1], known[2]])
    print(json.dumps({"cases": len(table), **count, "different": different, "words": words}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
