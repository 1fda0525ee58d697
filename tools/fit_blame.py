"""Fits the weights of blame (locus/engine/blame/weights.def) to programs whose mistakes are known.

    python tests/check/score.py --no-fixes --examples build/examples.json   # runs them and keeps every candidate
    python tools/fit_blame.py build/examples.json [--write]

For each finding a candidate is chosen with a probability that grows with its score; the weights are those that make the
lines known to be right most probable, pulled toward the weights of today so that what the examples do not show stays.
How well it does on programs that were not used is measured by leaving out whole programs, a fifth at a time. Needs
PyTorch; changes nothing without --write.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from pathlib import Path

import torch

WEIGHTS = Path(__file__).resolve().parents[1] / "locus" / "engine" / "blame" / "weights.def"
_LINE = re.compile(r"^LOCUS_(FACT|EDIT|REASON|DISTANCE)_WEIGHT\((.*?)(-?[\d.]+)\)$")
_FOLDS = 5
_STEPS = 400
_TEMPERATURE = 10.0  # points of score that make a candidate e times as probable
_PULL = 2e-4  # toward the weights of today


def constant(word: str) -> str:
    """`kMoveAtUse` of move_at_use, `kModelNotMoved` of model-not-moved: as in the engine's lists."""
    return "k" + "".join(part.capitalize() for part in re.split("[_-]", word))


class Table:
    """The weights by name, in the order of the file."""

    def __init__(self, text: str, reasons: dict[str, str]):
        self.lines, self.reasons = text.splitlines(), reasons
        self.index: dict[tuple[str, ...], int] = {}
        values: list[float] = []
        for line in self.lines:
            match = _LINE.match(line)
            if match is not None:
                names = tuple(name.strip() for name in match[2].split(",") if name.strip())
                self.index[(match[1], *names)] = len(values)
                values.append(float(match[3]))
        self.values = torch.tensor(values, dtype=torch.float64)

    def features(self, reason: str, candidate: dict) -> dict[int, float]:
        """What a candidate's score is the sum of: the weights' numbers, and how often each."""
        edit = constant(candidate["edit"])
        by_reason = ("REASON", self.reasons[reason], edit)
        found = {self.index[by_reason if by_reason in self.index else ("EDIT", edit)]: 1.0}
        for fact in candidate["facts"]:
            found[self.index[("FACT", constant(fact))]] = 1.0
        found[self.index[("DISTANCE",)]] = float(candidate["distance"])
        return found

    def text(self, values: torch.Tensor) -> str:
        numbers = iter(values.tolist())
        lines = []
        for line in self.lines:
            match = _LINE.match(line)
            if match is not None:
                value = next(numbers)
                rounded = f"{value:.2f}" if match[1] == "DISTANCE" else f"{value:.0f}"
                line = f"LOCUS_{match[1]}_WEIGHT({match[2]}{rounded})"
            lines.append(line)
        return "\n".join(lines) + "\n"


class Example:
    """One finding: its candidates as rows, and which of them stand on a line that is right."""

    def __init__(self, table: Table, program: str, finding: dict, accepted: list[int]):
        self.program = program
        rows = [table.features(finding["reason"], each) for each in finding["candidates"]]
        self.rows = torch.zeros(len(rows), len(table.values), dtype=torch.float64)
        for number, row in enumerate(rows):
            for feature, count in row.items():
                self.rows[number, feature] = count
        self.right = torch.tensor([each["at"]["line"] in accepted for each in finding["candidates"]])

    def is_telling(self) -> bool:
        return bool(self.right.any()) and not bool(self.right.all())


class Batch:
    """Examples side by side, filled up to the longest with candidates that can't be chosen."""

    def __init__(self, examples: list[Example]):
        most = max(len(example.rows) for example in examples)
        features = examples[0].rows.shape[1]
        self.rows = torch.zeros(len(examples), most, features, dtype=torch.float64)
        self.right = torch.zeros(len(examples), most, dtype=torch.bool)
        self.there = torch.zeros(len(examples), most, dtype=torch.bool)
        for number, example in enumerate(examples):
            count = len(example.rows)
            self.rows[number, :count], self.right[number, :count] = example.rows, example.right
            self.there[number, :count] = True

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        return (self.rows @ weights).masked_fill(~self.there, -torch.inf)

    def correct(self, weights: torch.Tensor) -> int:
        """How many findings would be blamed on a right line; among equals the first counts, as in the engine."""
        best = self.scores(weights).argmax(1, keepdim=True)
        return int(self.right.gather(1, best).sum())


def fit(batch: Batch, start: torch.Tensor) -> torch.Tensor:
    """The weights that make the right lines most probable."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=0.3)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        chances = torch.log_softmax(batch.scores(weights) / _TEMPERATURE, 1)
        loss = -chances.masked_fill(~batch.right, -torch.inf).logsumexp(1).mean()
        loss = loss + _PULL * (weights - start).square().sum()
        loss.backward()
        optimizer.step()
    return weights.detach()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="+", help="files that score.py --examples has written")
    parser.add_argument("--write", action="store_true", help="write the fitted weights")
    options = parser.parse_args()
    codes = (WEIGHTS.parents[1] / "codes.def").read_text(encoding="utf-8")
    reasons = {reason: name for name, reason in re.findall(r'LOCUS_CODE\((\w+), "LOC\d+", "([\w-]+)"', codes)}
    table = Table(WEIGHTS.read_text(encoding="utf-8"), reasons)
    rows = [row for file in options.examples for row in json.loads(Path(file).read_text(encoding="utf-8"))]
    known = [Example(table, row["program"], row["finding"], row["accepted"]) for row in rows]
    telling = [example for example in known if example.is_telling()]
    print(f"{len(known)} findings; no candidate is right in {sum(not bool(e.right.any()) for e in known)}")
    print(f"weights of today: {Batch(telling).correct(table.values)} of {len(telling)}")
    names = sorted({example.program for example in telling})
    random.Random(0).shuffle(names)
    unseen = 0
    for fold in range(_FOLDS):
        left_out = set(names[fold::_FOLDS])
        fitted = fit(Batch([e for e in telling if e.program not in left_out]), table.values)
        unseen += Batch([e for e in telling if e.program in left_out]).correct(fitted)
    print(f"fitted, on programs that were left out: {unseen} of {len(telling)}")
    fitted = fit(Batch(telling), table.values)
    print(f"fitted, on all: {Batch(telling).correct(fitted)} of {len(telling)}")
    if options.write:
        WEIGHTS.write_text(table.text(fitted), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
