"""What an epoch of a training copies, waits for and holds: the ledger of each epoch, as numbers."""

from __future__ import annotations

import torch

from locus.api.guarding import explain, guard
from locus.api.ledgers import ledger


class Epochs:
    """One ledger for each epoch. Without CUDA devices, neither simulated nor real, there is nothing to count."""

    def __init__(self, history: bool = False):
        self._history = history
        self._ledger: ledger | None = None

    def start(self) -> None:
        """At the begin of the training: device errors are explained from here on."""
        if torch.cuda.is_available():
            guard(history=self._history)

    def begin(self) -> None:
        """At the begin of an epoch."""
        self.end()
        if torch.cuda.is_available():
            self._ledger = ledger()
            self._ledger.__enter__()

    def end(self) -> dict[str, float]:
        """At its end: numbers for a logger; {} where nothing was counted."""
        book, self._ledger = self._ledger, None
        if book is None:
            return {}
        book.__exit__(None)
        found = {
            "locus/transfers": float(sum(row.count for row in book.transfers)),
            "locus/transfer_bytes": float(sum(row.bytes for row in book.transfers)),
            "locus/synchronizations": float(sum(row.count for row in book.syncs)),
        }
        for number in range(torch.cuda.device_count()):
            found[f"locus/peak_bytes_cuda_{number}"] = float(book.peak(f"cuda:{number}"))
        return found

    def fail(self, error: BaseException) -> None:
        """At an error: it is explained now, before the trainer cleans up and moves the model away."""
        self.end()
        if torch.cuda.is_available():
            explain(error)
