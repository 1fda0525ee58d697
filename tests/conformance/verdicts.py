"""Compares the simulated device's verdicts with a table of a real GPU's, in this one process; prints one JSON object.

    python tests/conformance/verdicts.py TABLE [STEP]      # every STEPth entry of the databases, 1: all
    python tests/conformance/verdicts.py TABLE STEP dry    # without a single value

`python -m locus.ground_truth` took the tables in tests/data, on an NVIDIA H200 with PyTorch 2.11. The first has plain
calls; the other has more dtypes, in-place calls, out=, backward passes, modules and optimizers.
"""

import json
import sys

from locus.ground_truth import cases, comparing, table, worker

import locus


def main(path, step, dry):
    if dry:
        cases.prepare()
        locus.simulate(devices=1, dry=True, dry_keep=0)
    else:
        worker.begin(simulated=True)
    known = table.read(path)
    kinds, dtypes = {key.kind for key in known.rows}, tuple(dict.fromkeys(key.dtype for key in known.rows))
    comparison = comparing.Comparison(known)
    for entry in [entry for entry in cases.entries(dtypes) if entry.kind in kinds][::step]:
        comparison.add_all(worker.rows_of(entry, known=known.rows))
    different, words = (
        [[*one.key, one.ours.detail, one.theirs.detail] for one in found]
        for found in (comparison.different, comparison.words)
    )
    print(json.dumps({**comparison.count, "different": different, "words": words}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1, dry="dry" in sys.argv[3:])
