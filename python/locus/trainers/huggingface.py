"""For the Trainer of Hugging Face's transformers:

trainer = Trainer(model, …)
trainer.add_callback(LocusCallback(trainer))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import TrainerCallback

from locus.trainers.epochs import Epochs

if TYPE_CHECKING:
    from transformers import Trainer


class LocusCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not looked into
    """Explains device errors, and logs transfers, synchronizations and peak memory of each epoch, to its log.

    Args:
        trainer: whose `log()` gets the numbers.
        history: also record where tensors come from, so that an error names the lines. Costs a little on each operator.
    """

    def __init__(self, trainer: Trainer, history: bool = False):
        self._trainer = trainer
        self._epochs = Epochs(history)

    def on_train_begin(self, *_: object, **__: object) -> None:
        """Before the first epoch."""
        self._epochs.start()

    def on_epoch_begin(self, *_: object, **__: object) -> None:
        """Before an epoch."""
        self._epochs.begin()

    def on_epoch_end(self, *_: object, **__: object) -> None:
        """After an epoch."""
        if found := self._epochs.end():
            self._trainer.log(found)

    def on_train_end(self, *_: object, **__: object) -> None:
        """After the last epoch; one that was broken off is not logged."""
        self._epochs.end()
